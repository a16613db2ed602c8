/* One item in full, under one run or two. */

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const VARIANTS = ["", "base", "counterfactual"];

/* The letter at a position, or its number if there is none; undefined if it is not known. */
function letterAt(position) {
  return position < LETTERS.length ? LETTERS[position] : `#${position + 1}`;
}

function answerName(kind, index) {
  if (kind === "boolean") return ["false", "true"][index];
  return kind === "score" ? String(index) : letterAt(index);
}

/* Keys and descriptions of the answers of an item: of its record, or the options of the import, which
   may differ between questions. */
function answersOf(run, columns, row, texts, choices) {
  if (texts) return texts[2];
  const options = packed.runs[run].options[columns.asked?.[row] ?? 0];
  return options?.length === choices ? options.map((option) => [option, null]) : null;
}

function metaLine(table, items, tokens, row) {
  const kind = table.kinds[items.kind[row]];
  const domain = table.domains[items.domain[row]];
  const line = made("p", "meta", `${kind}, ${items.choices[row]} answers`);
  if (domain) line.append(", ", isolated(domain));
  if (items.variant[row]) line.append(`, ${VARIANTS[items.variant[row]]}`);
  line.append(`; prompt tokens ${tokens ? tokens.toLocaleString("en") : "not known"}`);
  return line;
}

/* What the answers mean, where the record says more than their names. */
function meanings(answers) {
  const list = made("ul", "meanings");
  for (const [key, description] of answers) {
    if (description === null || description === key) continue;
    const line = fillText(made("li"), key, 300);
    line.append(": ", fillText(made("span", "description"), description, 600));
    list.append(line);
  }
  list.hidden = !list.children.length;
  return list;
}

/* A button that shows the other member of the pair below this one, so that both can be read. */
function otherMember(a, b, row, box) {
  const words = ["Show the other member of the pair below", "Hide the other member of the pair"];
  const button = made("button", "", words[0]);
  button.type = "button";
  button.setAttribute("aria-expanded", "false");
  let other = null;
  button.addEventListener("click", async () => {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
    button.textContent = words[open ? 1 : 0];
    other ??= detailOf(a, b, row, false);
    const shown = await other;
    if (button.getAttribute("aria-expanded") === "true") box.after(shown);
    else shown.remove();
  });
  return button;
}

async function detailOf(a, b, row, pair = true) {
  const place = packed.runs[a];
  const [items, columns] = [await loadItems(place.items), await loadRun(a)];
  const table = packed.items[place.items];
  const texts = table.texts ? (await inBlocks(table.texts, row, jsonOf))[row % table.texts.size] : null;
  const id = (await inBlocks(table.ids, row, jsonOf))[row % table.ids.size];
  const box = made("div", "detail-box", fillText(made("h3"), id, 300));
  const link = made("a", "", "Link to this item");
  link.href = fragmentOf(`item=${encodeURIComponent(id)}`, runsInAddress(a, b));
  const tools = made("p", "tools", link);
  if (pair && items.partner[row]) tools.append(otherMember(a, b, row + items.partner[row], box));
  box.append(metaLine(table, items, columns.tokens[row], row), tools);
  if (texts) box.append(fillText(made("p", "question"), texts[1]), meanings(texts[2]));
  const runs = b < 0 ? [["", a]] : [["A", a], ["B", b]];
  const boxes = runs.map(([name, run]) => runBox(name, run, items, row, texts));
  box.append(made("div", "run-boxes", ...(await Promise.all(boxes))));
  const mean = place.distributions.includes("ensemble") ? " Mean of views: the decoding \"ensemble\", from mean log probabilities." : "";
  box.append(made("p", "meta", `A bar is the probability of an answer in one view, next to the letter that it had there. Bold: the most probable answer.${mean}`));
  if (texts) box.append(made("div", "sources", ...contextBoxes(texts[0], items.variant[row])), await promptBox(a, row, texts));
  else box.append(made("p", "meta", "Context and question are not in this page: give their dataset with ", made("code", "", "--data FILE_OR_FOLDER"), "."));
  return box;
}
