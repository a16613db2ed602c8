/* Search, block by block: the page stays usable, shows how far it is, and can be told to stop. */

const BREATHE_MS = 12;

function breath() {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

function textOfItem([context, question, answers]) {
  const parts = [question];
  for (const [label, line] of context) {
    parts.push(label);
    parts.push(line.map((part) => (typeof part === "string" ? part : part[0])).join(""));
  }
  for (const [key, description] of answers) parts.push(key, description ?? "");
  return parts.join("\n");
}

/* Marks the rows whose id, or texts where the page has them, hold the words. Null when stopped. */
async function searchItems(place, words, told, stopped) {
  const table = packed.items[place];
  const matches = new Uint8Array(table.n);
  const wanted = words.toLowerCase();
  const parts = [[table.ids, (id) => id]];
  if (table.texts) parts.push([table.texts, textOfItem]);
  const total = parts.reduce((sum, [part]) => sum + part.blocks.length, 0);
  let [done, since] = [0, performance.now()];
  for (const [part, read] of parts) {
    for (let at = 0; at < part.blocks.length; at += 1) {
      const values = jsonOf(await inflated(part.blocks[at]));
      for (let row = 0; row < values.length; row += 1) {
        if (read(values[row]).toLowerCase().includes(wanted)) matches[at * part.size + row] = 1;
        if (performance.now() - since > BREATHE_MS) {
          told(done / total);
          await breath();
          if (stopped()) return null;
          since = performance.now();
        }
      }
      done += 1;
      if (stopped()) return null;
    }
  }
  told(1);
  return matches;
}
