/* The list: its columns, its heads and its rows, for one run or for two next to each other. */

const PAIR_WORDS = { 0: "neither", 1: "one", 2: "both", [NOT_KNOWN]: "–" };
const ITEM = { name: "item", title: "Item", left: true, values: (items) => items.rank.map((distance, row) => row + distance) };
const KIND = { name: "kind", title: "Kind", left: true, extra: true, values: (items) => items.kind };
const DOMAIN = { name: "domain", title: "Domain", left: true, extra: true, values: (items) => items.domain };
const REFERENCE = { name: "reference", title: "Reference", left: true, extra: true, values: (items) => items.reference };

/* A column that each of two runs has: B's has a name of its own. */
function ofRun(name, title, rest, values) {
  return {
    A: { name, title, side: "A", ...rest, values: (_, a) => values(a) },
    B: { name: `${name}_b`, title, side: "B", ...rest, values: (_, a, b) => values(b) },
  };
}

const ANSWER = ofRun("answer", "Answer", { left: true }, (run) => run.answer);
const CONFIDENCE = ofRun("confidence", "Confidence %", { unknown: NOT_KNOWN }, (run) => run.confidence);
const VIEW_TV = ofRun("view_tv", "TV %", { extra: true, unknown: NOT_KNOWN }, (run) => run.view_tv);
const ONE_RUN = [
  ITEM,
  KIND,
  DOMAIN,
  ANSWER.A,
  REFERENCE,
  { name: "outcome", title: "Outcome", left: true, values: (_, run) => run.flags.map((flag) => flag & packed.flags.right) },
  CONFIDENCE.A,
  { name: "calibrated", title: "After T(x) %", extra: true, values: (_, run) => run.calibrated, unknown: NOT_KNOWN },
  { name: "of_reference", title: "Reference %", extra: true, values: (_, run) => run.of_reference, unknown: NOT_KNOWN },
  { ...VIEW_TV.A, extra: false },
  { name: "pair", title: "Pair right", left: true, extra: true, values: (_, run) => Uint16Array.from(run.flags, pairState), unknown: NOT_KNOWN },
  { name: "tokens", title: "Tokens", extra: true, values: (_, run) => run.tokens, unknown: 0 },
];
const TWO_RUNS = [ITEM, REFERENCE, ...[ANSWER, CONFIDENCE, VIEW_TV].map((each) => each.A), ...[ANSWER, CONFIDENCE, VIEW_TV].map((each) => each.B), KIND, DOMAIN];

/* Columns of which nothing is known in the runs that are shown, by name; see `noteEmpty`. */
let emptyColumns = new Set();

function columnsShown() {
  return (state.b < 0 ? ONE_RUN : TWO_RUNS).filter((column) => !emptyColumns.has(column.name));
}

function noteEmpty(items, a, b) {
  const { domains } = packed.items[packed.runs[state.a].items];
  const isEmpty = ({ unknown, values }) => unknown !== undefined && (values(items, a, b) ?? []).every((value) => value === unknown);
  emptyColumns = new Set((b ? TWO_RUNS : ONE_RUN).filter(isEmpty).map(({ name }) => name));
  if (domains.every((domain) => ["", "unknown"].includes(domain))) emptyColumns.add(DOMAIN.name);
}

function columnNamed(name) {
  return columnsShown().find((column) => column.name === name);
}

function classOf(column, columns) {
  const first = column.side && columns.find((each) => each.side === column.side) === column && state.b >= 0;
  return `${column.left ? "left" : ""}${column.extra ? " narrow-hidden" : ""}${first ? " side" : ""}`;
}

/* With two runs, a row above the heads names them: A, B. A narrow screen leaves some cells out. */
function sideHeads(columns) {
  const cells = [];
  for (const column of columns) {
    const ofSide = columns.filter(({ side }) => side && side === column.side);
    if (ofSide[0] === column) {
      const run = packed.runs[column.side === "A" ? state.a : state.b];
      const cell = made("th", "left side", `${column.side}: `, isolated(cut(run.label, 80)));
      cell.colSpan = ofSide.filter(({ extra }) => !extra).length;
      cell.scope = "colgroup";
      cells.push(cell);
    } else if (!column.side || column.extra) cells.push(made("td", column.extra ? "narrow-hidden" : ""));
  }
  return cells;
}

function drawHeads() {
  const columns = columnsShown();
  const heads = columns.map((column) => {
    const button = made("button", "", column.title);
    button.type = "button";
    button.dataset.sort = column.name;
    if (state.b >= 0 && column.side) button.ariaLabel = `${column.title} of ${column.side}`;
    const head = made("th", classOf(column, columns), button);
    head.scope = "col";
    const sorted = state.sort === column.name;
    head.setAttribute("aria-sort", sorted ? (state.descending ? "descending" : "ascending") : "none");
    return head;
  });
  const focused = document.activeElement?.dataset?.sort;
  byId("sides").replaceChildren(...(state.b < 0 ? [] : sideHeads(columns)));
  byId("sides").hidden = state.b < 0;
  byId("heads").replaceChildren(...heads);
  if (focused) byId("heads").querySelector(`[data-sort="${focused}"]`)?.focus();
}

/* Of repeats, how many are right: the accuracy of a run is the mean over them. */
function outcomeBadges(place, columns, row) {
  const { right, confident_error, flip } = packed.flags;
  const flag = columns.flags[row];
  const word = flag & right ? "right" : "wrong";
  const many = columns.right_repeats ? `${columns.right_repeats[row]} of ${packed.runs[place].repeats} right` : word;
  const badges = [made("span", word, many)];
  if (flag & confident_error) badges.push(made("span", "badge wrong", "confident"));
  if (flag & flip) badges.push(made("span", "badge open", "flips"));
  return badges;
}

function itemCell(id, texts) {
  const button = made("button", "item", isolated(cut(id, 120)));
  button.type = "button";
  button.setAttribute("aria-expanded", "false");
  if (!texts) return [button];
  return [button, made("div", "asked", isolated(cut(texts[1], 240)))];
}

async function rowOf(row, items, a, b) {
  const table = packed.items[packed.runs[state.a].items];
  const texts = table.texts ? (await inBlocks(table.texts, row, jsonOf))[row % table.texts.size] : null;
  const ids = await inBlocks(table.ids, row, jsonOf);
  const kind = table.kinds[items.kind[row]];
  const answers = answersOf(state.a, a, row, texts, items.choices[row]);
  const answer = (index) => made("span", "said", answerText(kind, answers, index, 80));
  const cells = {
    item: itemCell(ids[row % table.ids.size], texts),
    kind: [kind],
    domain: [isolated(cut(table.domains[items.domain[row]], 60))],
    answer: [answer(a.answer[row])],
    reference: [answer(items.reference[row])],
    outcome: outcomeBadges(state.a, a, row),
    confidence: [percentOfSteps(a.confidence[row])],
    calibrated: [a.calibrated ? percentOfSteps(a.calibrated[row]) : ""],
    of_reference: [percentOfSteps(a.of_reference[row])],
    view_tv: [percentOfSteps(a.view_tv[row])],
    pair: [PAIR_WORDS[pairState(a.flags[row])]],
    tokens: [a.tokens[row] ? a.tokens[row].toLocaleString("en") : "–"],
  };
  if (b) {
    cells.answer.push(" ", made("span", "outcome", ...outcomeBadges(state.a, a, row)));
    cells.answer_b = [answer(b.answer[row]), " ", made("span", "outcome", ...outcomeBadges(state.b, b, row))];
    cells.confidence_b = [percentOfSteps(b.confidence[row])];
    cells.view_tv_b = [percentOfSteps(b.view_tv[row])];
  }
  const line = made("tr");
  line.dataset.row = row;
  const columns = columnsShown();
  for (const column of columns) {
    const cell = made(column === ITEM ? "th" : "td", classOf(column, columns), ...cells[column.name]);
    if (column === ITEM) cell.scope = "row";
    line.append(cell);
  }
  return line;
}

/* Numbers are sorted largest or smallest first; words and answers, in ascending or descending order. */
function orderWords(column) {
  if (column.left) return state.descending ? "descending" : "ascending";
  return state.descending ? "largest first" : "smallest first";
}

function orderLine() {
  const column = columnNamed(state.sort);
  if (column) {
    const side = state.b >= 0 && column.side ? ` of ${column.side}` : "";
    return `By ${column.title.replace(" %", "")}${side}, ${orderWords(column)}.`;
  }
  if (state.sort === "differ") return "Differences first: where one run alone is right, by the confidence of the other; then both wrong.";
  return `Worst${state.b < 0 ? "" : " of A"} first: confident errors by confidence, flips by TV, other errors.`;
}
