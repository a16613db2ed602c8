/* What the address of the page says after "#": the item that is open, or which items are listed. */

const CHOICES = {
  compare: [...COMPARED],
  outcome: ["right", "wrong", "confident", "flips"],
  pair: ["pair-right", "pair-one", "pair-wrong", "pair-same"],
};

/* Returns null for a fragment that is about something else, or that cannot be read. */
function readPlace(fragment) {
  const parts = fragment.replace(/^#/, "").split("&");
  const place = Object.create(null);
  try {
    for (const part of parts) {
      const [, name, value] = /^([^=]*)=?(.*)$/s.exec(part);
      place[name] = name === "ids" ? value.split(",").map(decodeURIComponent) : decodeURIComponent(value);
    }
  } catch {
    return null;
  }
  return "item" in place || ("items" in place && parts.length > 1) ? place : null;
}

/* Runs count from 1 in an address. */
function fragmentOf(head, choices) {
  const parts = [head];
  for (const [name, value] of Object.entries(choices)) {
    if (value === null || value === "") continue;
    const text = Array.isArray(value) ? value.map(encodeURIComponent).join(",") : encodeURIComponent(value);
    parts.push(`${name}=${text}`);
  }
  return `#${parts.join("&")}`;
}

/* The runs that a fragment names; the page's own pair without a name. */
function runsOfPlace(place) {
  const named = (text) => {
    const number = Number(text);
    return Number.isInteger(number) && number >= 1 && number <= packed.runs.length ? number - 1 : -1;
  };
  const a = named(place.a);
  if (a < 0) return [packed.compared[0], packed.compared[1] ?? -1];
  return [a, comparable(a).includes(named(place.b)) ? named(place.b) : -1];
}

/* The runs that can be shown next to a run: those on the same items. */
function comparable(a) {
  const { items } = packed.runs[a];
  return packed.runs.map((_, place) => place).filter((place) => place !== a && packed.runs[place].items === items);
}

/* Rows of ids: finds them block by block. Returns the rows in the order of the file. */
async function rowsOfIds(place, wanted) {
  const table = packed.items[place].ids;
  const rows = [];
  for (let at = 0; at < table.blocks.length && rows.length < wanted.size; at += 1) {
    const ids = jsonOf(await inflated(table.blocks[at]));
    ids.forEach((id, row) => {
      if (wanted.has(id)) rows.push(at * table.size + row);
    });
  }
  return rows;
}
