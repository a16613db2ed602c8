/* The item browser: which items, in which order, which of them are open. */

const COLUMNS = [
  { name: "item", title: "Item", left: true, values: (items) => items.rank.map((distance, row) => row + distance) },
  { name: "kind", title: "Kind", left: true, values: (items) => items.kind },
  { name: "domain", title: "Domain", left: true, extra: true, values: (items) => items.domain },
  { name: "answer", title: "Answer", left: true, values: (_, run) => run.answer },
  { name: "reference", title: "Reference", left: true, extra: true, values: (items) => items.reference },
  { name: "outcome", title: "Outcome", left: true, values: (_, run) => run.flags.map((flag) => flag & packed.flags.right) },
  { name: "confidence", title: "Confidence %", values: (_, run) => run.confidence, unknown: NOT_KNOWN },
  { name: "calibrated", title: "After T(x) %", extra: true, values: (_, run) => run.calibrated, unknown: NOT_KNOWN },
  { name: "of_reference", title: "Reference %", extra: true, values: (_, run) => run.of_reference, unknown: NOT_KNOWN },
  { name: "view_tv", title: "TV %", values: (_, run) => run.view_tv, unknown: NOT_KNOWN },
  { name: "pair", title: "Pair right", left: true, extra: true, values: (_, run) => Uint16Array.from(run.flags, pairState), unknown: NOT_KNOWN },
  { name: "tokens", title: "Tokens", extra: true, values: (_, run) => run.tokens, unknown: 0 },
];
const PAIR_WORDS = { 0: "neither", 1: "one", 2: "both", [NOT_KNOWN]: "–" };
const state = { run: 0, sort: "worst", descending: true, page: 0, matches: null, words: "", order: null, orderKey: "", shown: [], drawn: 0, searches: 0 };
const byId = (name) => document.getElementById(name);

function columnsShown(place = state.run) {
  const calibrated = "calibrated" in packed.runs[place].columns;
  return COLUMNS.filter((column) => column.name !== "calibrated" || calibrated);
}

function columnNamed(name, place = state.run) {
  return columnsShown(place).find((column) => column.name === name);
}

/* All rows of a run in the order that was chosen; kept until another is. */
function currentOrder(place, items, run) {
  const key = `${place} ${state.sort} ${state.descending}`;
  if (state.orderKey === key) return state.order;
  const column = columnNamed(state.sort, place);
  const keys = column
    ? sortKeys(column.values(items, run), column.unknown ?? -1, state.descending)
    : worstKeys(run);
  state.order = orderBy(keys);
  state.orderKey = key;
  return state.order;
}

function codeOf(select) {
  const { value } = byId(select);
  return value === "" ? -1 : Number(value);
}

/* Draws the list; where that fails it is empty, and says so: never the rows of another choice. */
async function draw() {
  try {
    await drawList();
    byId("items-message").textContent = "";
  } catch (error) {
    byId("rows").replaceChildren();
    byId("count").textContent = "";
    byId("items-message").textContent = `The list of items could not be drawn (${error.message}). Choose again, or load the page anew.`;
    console.error(error);
  }
}

async function drawList() {
  state.drawn += 1;
  const [mine, place] = [state.drawn, state.run];
  const [items, run] = [await loadItems(packed.runs[place].items), await loadRun(place)];
  if (mine !== state.drawn) return;
  const order = currentOrder(place, items, run);
  const wanted = { outcome: byId("outcome").value, pair: byId("pair").value, kind: codeOf("kind"), domain: codeOf("domain"), matches: state.matches };
  const shown = filtered(order, items, run, wanted);
  const size = Number(byId("size").value);
  const pages = Math.max(1, Math.ceil(shown.length / size));
  state.page = Math.min(Math.max(0, Math.trunc(state.page)), pages - 1);
  const rows = shown.subarray(state.page * size, (state.page + 1) * size);
  const lines = [];
  for (const row of rows) lines.push(await rowOf(place, row, items, run));
  // Another choice was made meanwhile: it draws the list.
  if (mine !== state.drawn) return;
  state.shown = shown;
  drawHeads();
  byId("rows").replaceChildren(...lines);
  drawCount(rows.length, shown.length, order.length, pages, size);
}

function drawHeads() {
  const heads = columnsShown().map((column) => {
    const button = made("button", "", column.title);
    button.type = "button";
    button.dataset.sort = column.name;
    const head = made("th", classOf(column), button);
    head.scope = "col";
    const sorted = state.sort === column.name;
    head.setAttribute("aria-sort", sorted ? (state.descending ? "descending" : "ascending") : "none");
    return head;
  });
  const focused = document.activeElement?.dataset?.sort;
  byId("heads").replaceChildren(...heads);
  if (focused) byId("heads").querySelector(`[data-sort="${focused}"]`)?.focus();
}

function classOf(column) {
  return `${column.left ? "left" : ""}${column.extra ? " narrow-hidden" : ""}`;
}

function drawCount(here, n, all, pages, size) {
  const start = state.page * size;
  const said = n ? `${(start + 1).toLocaleString("en")} to ${(start + here).toLocaleString("en")} of ${n.toLocaleString("en")} items` : "No item";
  const ofAll = n < all ? ` (${all.toLocaleString("en")} in all)` : "";
  const found = state.matches ? `, found for "${state.words}"` : "";
  byId("count").textContent = `${said}${ofAll}${found}.`;
  const column = columnNamed(state.sort);
  byId("order").textContent = column
    ? `By ${column.title.replace(" %", "")}, ${orderWords(column)}.`
    : "Worst first: confident errors by confidence, flips by TV, other errors.";
  byId("page").value = state.page + 1;
  byId("page").max = pages;
  byId("pages").textContent = `of ${pages.toLocaleString("en")}`;
  const focused = document.activeElement;
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = state.page >= pages - 1;
  // A button that goes out of use hands its focus on: else it falls back to the top of the page.
  if (focused?.closest(".pager") && focused.disabled) {
    const other = byId(focused.id === "next" ? "previous" : "next");
    (other.disabled ? byId("page") : other).focus();
  }
}

/* Numbers are sorted largest or smallest first; words and answers, in ascending or descending order. */
function orderWords(column) {
  if (column.left) return state.descending ? "descending" : "ascending";
  return state.descending ? "largest first" : "smallest first";
}

async function rowOf(place, row, items, run) {
  const table = packed.items[packed.runs[place].items];
  const ids = await inBlocks(table.ids, row, jsonOf);
  const kind = table.kinds[items.kind[row]];
  const button = made("button", "item", isolated(cut(ids[row % table.ids.size], 120)));
  button.type = "button";
  button.setAttribute("aria-expanded", "false");
  const flag = run.flags[row];
  const right = flag & packed.flags.right;
  const outcome = made("span", right ? "right" : "wrong", right ? "right" : "wrong");
  const cells = {
    item: button,
    kind,
    domain: isolated(cut(table.domains[items.domain[row]], 60)),
    answer: answerName(kind, run.answer[row]),
    reference: answerName(kind, items.reference[row]),
    outcome,
    confidence: percentOfSteps(run.confidence[row]),
    calibrated: run.calibrated ? percentOfSteps(run.calibrated[row]) : "",
    of_reference: percentOfSteps(run.of_reference[row]),
    view_tv: percentOfSteps(run.view_tv[row]),
    pair: PAIR_WORDS[pairState(flag)],
    tokens: run.tokens[row] ? run.tokens[row].toLocaleString("en") : "–",
  };
  const line = made("tr");
  line.dataset.row = row;
  for (const column of columnsShown(place)) {
    const cell = made(column.name === "item" ? "th" : "td", classOf(column), cells[column.name]);
    if (column.name === "item") cell.scope = "row";
    line.append(cell);
  }
  if (flag & packed.flags.confident_error) outcome.after(made("span", "badge wrong", "confident"));
  if (flag & packed.flags.flip) outcome.parentNode.append(made("span", "badge open", "flips"));
  return line;
}

async function toggle(line) {
  const button = line.querySelector("button.item");
  if (button.getAttribute("aria-expanded") === "true") {
    button.setAttribute("aria-expanded", "false");
    line.nextElementSibling.remove();
    return;
  }
  button.setAttribute("aria-expanded", "true");
  const cell = made("td", "", made("p", "meta", "Unpacking"));
  cell.colSpan = line.children.length;
  line.after(made("tr", "detail", cell));
  try {
    cell.replaceChildren(await detailOf(state.run, Number(line.dataset.row)));
  } catch (error) {
    cell.replaceChildren(made("p", "meta", `This item could not be shown (${error.message}).`));
    console.error(error);
  }
}

function clearFilters() {
  for (const name of ["outcome", "pair", "kind", "domain", "search"]) byId(name).value = "";
  cancelSearch();
  state.matches = null;
  state.page = 0;
}

function again() {
  state.page = 0;
  return draw();
}

function sortBy(name) {
  const numbers = !COLUMNS.find((column) => column.name === name).left;
  state.descending = state.sort === name ? !state.descending : numbers;
  state.sort = name;
  return again();
}

async function chooseRun(place) {
  const other = packed.runs[place].items !== packed.runs[state.run].items;
  state.run = place;
  byId("run").value = place;
  if (other) clearFilters();
  // Not every run has the column by which the last one was sorted.
  if (!columnNamed(state.sort)) [state.sort, state.descending] = ["worst", true];
  fillChoices();
  await again();
}

function fillChoices() {
  const table = packed.items[packed.runs[state.run].items];
  for (const [name, values] of [["kind", table.kinds], ["domain", table.domains]]) {
    const select = byId(name);
    const before = select.value;
    const options = values.map((value, code) => new Option(visibleName(value) || "none", code));
    select.replaceChildren(new Option("all", ""), ...options);
    select.value = before;
  }
}

/* An option holds text alone: unseen signs become their code points. */
function visibleName(text) {
  return cut(text, 60).replace(UNSEEN, (sign) => `[${codePoint(sign)}]`);
}

async function search() {
  const words = byId("search").value.trim();
  state.searches += 1;
  const mine = state.searches;
  const stopped = () => mine !== state.searches;
  if (!words) {
    state.matches = null;
    byId("searching").hidden = true;
    return again();
  }
  byId("searching").hidden = false;
  const told = (share) => {
    byId("progress").value = share;
    byId("searched").textContent = `${Math.floor(100 * share)}% searched`;
  };
  told(0);
  const matches = await searchItems(packed.runs[state.run].items, words, told, stopped);
  if (matches === null) return undefined;
  byId("searching").hidden = true;
  state.matches = matches;
  state.words = words;
  return again();
}

function cancelSearch() {
  state.searches += 1;
  byId("searching").hidden = true;
}

async function turn(pages) {
  const before = state.page;
  state.page += pages;
  await draw();
  return state.page !== before;
}

async function keyInList(event) {
  const buttons = [...byId("rows").querySelectorAll("button.item")];
  const at = buttons.indexOf(event.target);
  const line = event.target.closest("tr[data-row], tr.detail");
  if (event.key === "Escape" && line) {
    const owner = line.classList.contains("detail") ? line.previousElementSibling : line;
    const button = owner.querySelector("button.item");
    if (button.getAttribute("aria-expanded") === "true") await toggle(owner);
    button.focus();
    return;
  }
  if (at < 0) return;
  const places = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 };
  if (event.key in places) {
    event.preventDefault();
    buttons[places[event.key]]?.focus();
  } else if (event.key === "PageDown" || event.key === "PageUp") {
    event.preventDefault();
    await turn(event.key === "PageDown" ? 1 : -1);
    byId("rows").querySelector("button.item")?.focus();
  }
}

function showItems(event) {
  const link = event.target.closest("a[data-show]");
  if (!link) return;
  clearFilters();
  byId(link.dataset.show.startsWith("pair") ? "pair" : "outcome").value = link.dataset.show;
  state.sort = "worst";
  chooseRun(Number(link.dataset.run));
}

function listen() {
  byId("run").addEventListener("change", (event) => chooseRun(Number(event.target.value)));
  for (const name of ["outcome", "pair", "kind", "domain", "size"]) byId(name).addEventListener("change", again);
  byId("controls").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  byId("search").addEventListener("input", () => {
    if (!byId("search").value.trim()) search();
  });
  byId("cancel").addEventListener("click", cancelSearch);
  byId("worst").addEventListener("click", () => {
    state.sort = "worst";
    again();
  });
  byId("reset").addEventListener("click", () => {
    clearFilters();
    draw();
  });
  byId("heads").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) sortBy(button.dataset.sort);
  });
  byId("rows").addEventListener("click", (event) => {
    const button = event.target.closest("button.item");
    if (button) toggle(button.closest("tr"));
  });
  byId("rows").addEventListener("keydown", keyInList);
  byId("previous").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  byId("page").addEventListener("change", (event) => turn(Number(event.target.value) - 1 - state.page));
  document.addEventListener("click", showItems);
}

function themes() {
  const button = byId("theme");
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const tell = () => {
    button.textContent = dark() ? "Light" : "Dark";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    tell();
  });
  tell();
  button.hidden = false;
}

async function start() {
  themes();
  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details")) each.open = true;
  });
  if (!canUnpack) {
    byId("items-message").textContent = "This browser cannot unpack the items (it has no DecompressionStream). Chrome and Edge 80, Firefox 113, Safari 16.4 and later can. Everything else on this page is complete.";
    return;
  }
  packed.runs.forEach((run, place) => byId("run").append(new Option(visibleName(run.label), place)));
  fillChoices();
  listen();
  byId("browser").hidden = false;
  await draw();
  document.documentElement.dataset.ready = "yes";
}

start();
