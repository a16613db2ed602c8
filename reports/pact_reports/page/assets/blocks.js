"use strict";

/* Packed blocks: found by number, unpacked when something of them is shown. */

const packed = JSON.parse(document.getElementById("page-data").textContent);
const BLOCKS_KEPT = 64;
const canUnpack = typeof DecompressionStream === "function";
const placeOfBlock = [];
packed.blocks.forEach((lengths, element) => {
  let start = 0;
  for (const length of lengths) {
    placeOfBlock.push([element, start, length]);
    start += length;
  }
});
const unpackedBlocks = new Map();

function base64Bytes(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

async function inflated(number) {
  const [element, start, length] = placeOfBlock[number];
  const text = document.getElementById(`blocks-${element}`).textContent;
  const bytes = base64Bytes(text.slice(start, start + length));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* Unpacks a block; the last ones stay unpacked, for the neighbours of what was shown. */
function blockOf(number, read) {
  let found = unpackedBlocks.get(number);
  unpackedBlocks.delete(number);
  if (found === undefined) found = inflated(number).then(read);
  unpackedBlocks.set(number, found);
  if (unpackedBlocks.size > BLOCKS_KEPT) unpackedBlocks.delete(unpackedBlocks.keys().next().value);
  return found;
}

function jsonOf(bytes) {
  return JSON.parse(new TextDecoder().decode(bytes));
}

/* The first bytes of all numbers come first, then all second bytes, and so on. */
function numbersOf(bytes, dtype) {
  if (dtype === "u1") return bytes;
  const width = dtype === "u2" ? 2 : 4;
  const size = bytes.length / width;
  const make = { u2: Uint16Array, u4: Uint32Array, i4: Int32Array }[dtype];
  const numbers = new make(size);
  for (let at = 0; at < size; at += 1) {
    let value = 0;
    for (let place = width - 1; place >= 0; place -= 1) value = value * 256 + bytes[place * size + at];
    numbers[at] = value;
  }
  return numbers;
}

async function columnsOf(places) {
  const columns = {};
  for (const [name, [block, dtype]] of Object.entries(places)) {
    columns[name] = numbersOf(await inflated(block), dtype);
  }
  return columns;
}

/* Data in blocks of a fixed number of rows. */
function inBlocks(part, row, read) {
  return blockOf(part.blocks[Math.floor(row / part.size)], read);
}
