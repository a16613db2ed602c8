/* One item in full. */

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const VARIANTS = ["", "base", "counterfactual"];

function answerName(kind, index) {
  if (kind === "boolean") return ["false", "true"][index];
  return kind === "score" ? String(index) : LETTERS[index];
}

/* Distributions [distribution][answer] in per mille, code orders [view][position], and the most
   probable answer of each distribution before it was rounded. */
async function probabilitiesOf(run, items, row) {
  const place = packed.runs[run];
  const size = place.views.size;
  let skipped = 0;
  for (let at = row - (row % size); at < row; at += 1) skipped += items.choices[at];
  const choices = items.choices[row];
  const taken = (values, names) =>
    Array.from({ length: names }, (_, at) =>
      Array.from(values.subarray(skipped * names + at * choices, skipped * names + (at + 1) * choices)),
    );
  const views = await inBlocks(place.views, row, (bytes) => numbersOf(bytes, "u2"));
  const orders = await inBlocks(place.orders, row, (bytes) => bytes);
  const names = place.distributions.length;
  const tops = await inBlocks(place.tops, row, (bytes) => bytes);
  const first = (row % place.tops.size) * names;
  return [taken(views, names), taken(orders, place.k), tops.subarray(first, first + names)];
}

function answersTable(shown) {
  const { names, distributions, orders, tops, answers, kind, reference, answer } = shown;
  const table = made("table", "answers");
  const head = made("tr", "", made("th", "", "answer"));
  for (const name of names) head.append(made("th", "", name));
  for (const cell of head.children) cell.scope = "col";
  table.append(made("thead", "", head));
  const body = made("tbody");
  for (let index = 0; index < distributions[0].length; index += 1) {
    const [key, description] = answers ? answers[index] : [answerName(kind, index), null];
    const name = fillText(made("th"), key, 300);
    name.scope = "row";
    if (index === reference) name.append(" ", made("span", "badge right", "reference"));
    if (index === answer) name.append(" ", made("span", `badge ${index === reference ? "right" : "wrong"}`, "answer"));
    if (description !== null && description !== key) name.append(fillText(made("div", "description"), description, 600));
    const line = made("tr", "", name);
    distributions.forEach((values, at) => {
      const cell = made("td", tops[at] === index ? "top" : "");
      const position = at < orders.length ? orders[at].indexOf(index) : -1;
      if (position >= 0) cell.append(made("span", "code", LETTERS[position]), " ");
      cell.append(`${percent(values[index])}%`);
      line.append(cell);
    });
    body.append(line);
  }
  table.append(body);
  return made("div", "scroll", table);
}

function contextBox(lines, variant) {
  const total = lines.reduce(
    (sum, [, parts]) => sum + parts.reduce((n, part) => n + (typeof part === "string" ? part.length : part[0].length + part[1].length), 0),
    0,
  );
  const box = made("div", "context");
  fillContext(box, lines, variant, TEXT_SHOWN);
  if (total > TEXT_SHOWN) {
    const button = made("button", "", `Show all ${total.toLocaleString("en")} signs`);
    button.type = "button";
    button.addEventListener("click", () => {
      box.replaceChildren();
      fillContext(box, lines, variant, Infinity);
    });
    box.append(button);
  }
  return box;
}

function metaLine(run, items, columns, row) {
  const place = packed.items[packed.runs[run].items];
  const kind = place.kinds[items.kind[row]];
  const domain = place.domains[items.domain[row]];
  const line = made("p", "meta", `${kind}, ${items.choices[row]} answers`);
  if (domain) line.append(", ", isolated(domain));
  if (items.variant[row]) line.append(`, ${VARIANTS[items.variant[row]]}`);
  const tokens = columns.tokens[row];
  line.append(`; prompt tokens ${tokens ? tokens.toLocaleString("en") : "not known"}`);
  line.append(`; View TV ${percentOrUnknown(columns.view_tv[row])}`);
  line.append(`; answer mass ${percentOrUnknown(columns.answer_mass[row])}`);
  return line;
}

function percentOrUnknown(steps) {
  return steps === NOT_KNOWN ? "not known" : `${percentOfSteps(steps)}%`;
}

/* A button that shows the other member of the pair below this one, so that both can be read. */
function otherMember(run, row, box) {
  const words = ["Show the other member of the pair below", "Hide the other member of the pair"];
  const button = made("button", "", words[0]);
  button.type = "button";
  button.setAttribute("aria-expanded", "false");
  let other = null;
  button.addEventListener("click", async () => {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(open));
    button.textContent = words[open ? 1 : 0];
    other ??= detailOf(run, row, false);
    const shown = await other;
    if (button.getAttribute("aria-expanded") === "true") box.after(shown);
    else shown.remove();
  });
  return button;
}

async function detailOf(run, row, pair = true) {
  const place = packed.runs[run];
  const [items, columns] = [await loadItems(place.items), await loadRun(run)];
  const table = packed.items[place.items];
  const [distributions, orders, tops] = await probabilitiesOf(run, items, row);
  const texts = table.texts ? (await inBlocks(table.texts, row, jsonOf))[row % table.texts.size] : null;
  const ids = await inBlocks(table.ids, row, jsonOf);
  const box = made("div", "detail-box", fillText(made("h4"), ids[row % table.ids.size], 300));
  box.append(metaLine(run, items, columns, row));
  if (pair && items.partner[row]) box.append(otherMember(run, row + items.partner[row], box));
  if (texts) {
    const edited = texts[0].some(([, parts]) => parts.some((part) => typeof part !== "string"));
    box.append(contextBox(texts[0], items.variant[row]));
    if (edited) {
      box.append(made("p", "meta", "Edited words: ", made("del", "", "base"), " ", made("ins", "", "counterfactual"), `; this is the ${VARIANTS[items.variant[row]] || "first"}.`));
    }
    box.append(fillText(made("p", "question"), texts[1]));
  } else {
    box.append(made("p", "meta", "Context and question are not in this page: give their dataset with ", made("code", "", "--data FILE_OR_FOLDER"), "."));
  }
  box.append(
    answersTable({
      names: place.distributions,
      distributions,
      orders,
      tops,
      answers: texts ? texts[2] : null,
      kind: table.kinds[items.kind[row]],
      reference: items.reference[row],
      answer: columns.answer[row],
    }),
  );
  return box;
}
