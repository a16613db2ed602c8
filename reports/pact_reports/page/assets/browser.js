/* The item browser: which runs, which items, in which order, and which of them are open. */

const state = {
  ...{ a: 0, b: -1, sort: "differ", descending: true, page: 0 },
  ...{ compare: "", bin: -1, calibrated: false, ids: null, matches: null, words: "" },
  ...{ order: null, orderKey: "", shown: [], drawn: 0, searches: 0, here: "" },
};
const FILTERS = ["outcome", "pair", "kind", "domain"];
const COMPARE_WORDS = { "": "All", "only-a": "Only A right", "only-b": "Only B right", "both-wrong": "Both wrong", "both-right": "Both right" };
const byId = (name) => document.getElementById(name);

/* All rows of the runs in the order that was chosen; kept until another is. */
function currentOrder(items, a, b) {
  const key = `${state.a} ${state.b} ${state.sort} ${state.descending}`;
  if (state.orderKey === key) return state.order;
  const column = columnNamed(state.sort);
  let keys = null;
  if (column) keys = sortKeys(column.values(items, a, b), column.unknown ?? -1, state.descending);
  else keys = state.sort === "differ" ? differKeys(a, b) : worstKeys(a);
  state.order = orderBy(keys);
  state.orderKey = key;
  return state.order;
}

function codeOf(select) {
  const { value } = byId(select);
  return value === "" ? -1 : Number(value);
}

function wantedNow() {
  const { compare, bin, calibrated, ids, matches } = state;
  return { outcome: byId("outcome").value, pair: byId("pair").value, kind: codeOf("kind"), domain: codeOf("domain"), compare, bin, calibrated, ids: ids?.mask, matches };
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
  const mine = state.drawn;
  const items = await loadItems(packed.runs[state.a].items);
  const [a, b] = [await loadRun(state.a), state.b < 0 ? null : await loadRun(state.b)];
  if (mine !== state.drawn) return;
  noteEmpty(items, a, b);
  const order = currentOrder(items, a, b);
  const [shown, counts] = filtered(order, items, a, b, wantedNow());
  const size = Number(byId("size").value);
  const pages = Math.max(1, Math.ceil(shown.length / size));
  state.page = Math.min(Math.max(0, Math.trunc(state.page)), pages - 1);
  const rows = shown.subarray(state.page * size, (state.page + 1) * size);
  const lines = await Promise.all(Array.from(rows, (row) => rowOf(row, items, a, b)));
  // Another choice was made meanwhile: it draws the list.
  if (mine !== state.drawn) return;
  state.shown = shown;
  drawHeads();
  drawCompare(counts);
  drawOnly();
  byId("rows").replaceChildren(...lines);
  drawCount(rows.length, shown.length, order.length, pages, size);
}

/* Buttons with the number of items that each would leave. */
function drawCompare(counts) {
  byId("compare").hidden = state.b < 0;
  for (const button of byId("compare").children) {
    const { compare } = button.dataset;
    const n = compare ? counts[COMPARED.indexOf(compare)] : counts.reduce((sum, each) => sum + each, 0);
    button.replaceChildren(`${COMPARE_WORDS[compare]} `, made("strong", "", n.toLocaleString("en")));
    button.setAttribute("aria-pressed", String(state.compare === compare));
  }
}

/* What only a link can choose: a bin of confidence, or ids. */
function drawOnly() {
  const said = [];
  if (state.bin >= 0) {
    const [low, high] = [state.bin, state.bin + 1].map((edge) => ((100 * edge) / packed.bins).toFixed(1));
    said.push(`a confidence${state.calibrated ? " after T(x)" : ""} of ${low}% to ${high}%${state.b < 0 ? "" : " (A)"}`);
  }
  if (state.ids) said.push(state.ids.missing ? `listed ids (${state.ids.missing} of them not on this page)` : "listed ids");
  byId("only").hidden = !said.length;
  byId("only-words").textContent = `Only items with ${said.join(" and ")}.`;
}

function drawCount(here, n, all, pages, size) {
  const start = state.page * size;
  const said = n ? `${(start + 1).toLocaleString("en")} to ${(start + here).toLocaleString("en")} of ${n.toLocaleString("en")} items` : "No item";
  const ofAll = n < all ? ` (${all.toLocaleString("en")} in all)` : "";
  const found = state.matches ? `, found for "${state.words}"` : "";
  byId("count").textContent = `${said}${ofAll}${found}.`;
  byId("order").textContent = orderLine();
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

async function open(line) {
  const button = line.querySelector("button.item");
  if (button.getAttribute("aria-expanded") === "true") return;
  button.setAttribute("aria-expanded", "true");
  const cell = made("td", "", made("p", "meta", "Unpacking"));
  cell.colSpan = line.children.length;
  line.after(made("tr", "detail", cell));
  try {
    cell.replaceChildren(await detailOf(state.a, state.b, Number(line.dataset.row)));
  } catch (error) {
    cell.replaceChildren(made("p", "meta", `This item could not be shown (${error.message}).`));
    console.error(error);
  }
}

function close(line) {
  const button = line.querySelector("button.item");
  if (button.getAttribute("aria-expanded") !== "true") return;
  button.setAttribute("aria-expanded", "false");
  line.nextElementSibling.remove();
}

function openLines() {
  return [...byId("rows").querySelectorAll("tr.detail")].map((detail) => detail.previousElementSibling);
}

async function toggle(line) {
  const isOpen = line.querySelector("button.item").getAttribute("aria-expanded") === "true";
  if (isOpen) {
    close(line);
    await noteItem(openLines().at(-1));
    return;
  }
  const opened = open(line);
  await noteItem(line);
  await opened;
}

/* The runs, where they are not the page's own pair. */
function runsInAddress(a, b) {
  const usual = a === packed.compared[0] && b === (packed.compared[1] ?? -1);
  return usual ? {} : { a: a + 1, b: b < 0 ? null : b + 1 };
}

/* Writes what is shown into the address: as a new entry of the history, or in place of the last. */
function note(fragment, anew) {
  if (fragment === location.hash) return;
  if (anew) location.hash = fragment;
  else location.replace(fragment);
  state.here = location.hash;
}

async function noteItem(line) {
  if (!line) {
    noteList();
    return;
  }
  const { ids } = packed.items[packed.runs[state.a].items];
  const row = Number(line.dataset.row);
  const id = (await inBlocks(ids, row, jsonOf))[row % ids.size];
  note(fragmentOf(`item=${encodeURIComponent(id)}`, runsInAddress(state.a, state.b)), true);
}

function noteList() {
  const table = packed.items[packed.runs[state.a].items];
  const named = (values, select) => (codeOf(select) < 0 ? null : values[codeOf(select)]);
  const choices = {
    ...{ a: state.a + 1, b: state.b < 0 ? null : state.b + 1, compare: state.compare },
    ...{ outcome: byId("outcome").value, pair: byId("pair").value },
    ...{ kind: named(table.kinds, "kind"), domain: named(table.domains, "domain") },
    ...{ bin: state.bin < 0 ? null : state.bin + 1, calibrated: state.calibrated ? 1 : null },
    ids: state.ids?.asked ?? null,
  };
  note(fragmentOf("items", choices), location.hash.startsWith("#item="));
}

function clearFilters() {
  for (const name of [...FILTERS, "search"]) byId(name).value = "";
  cancelSearch();
  Object.assign(state, { compare: "", bin: -1, calibrated: false, ids: null, matches: null, page: 0 });
}

function again() {
  state.page = 0;
  noteList();
  return draw();
}

function sortBy(name) {
  const numbers = !columnNamed(name).left;
  state.descending = state.sort === name ? !state.descending : numbers;
  state.sort = name;
  state.page = 0;
  return draw();
}

function usualOrder() {
  [state.sort, state.descending] = [state.b < 0 ? "worst" : "differ", true];
}

/* Shows one run, or two next to each other; what the new ones cannot have is forgotten. */
function setRuns(a, b) {
  const other = packed.runs[a].items !== packed.runs[state.a].items;
  const usual = state.sort === "differ" || (state.sort === "worst" && state.b < 0);
  Object.assign(state, { a, b: comparable(a).includes(b) ? b : -1 });
  if (other) clearFilters();
  if (state.b < 0) state.compare = "";
  if (usual || (state.sort !== "worst" && !columnNamed(state.sort))) usualOrder();
  fillChoices();
}

function fillChoices() {
  const others = comparable(state.a).map((place) => new Option(visibleName(packed.runs[place].label), place));
  byId("other").replaceChildren(new Option("none", -1), ...others);
  byId("run").value = state.a;
  byId("other").value = state.b;
  byId("differ").hidden = state.b < 0;
  byId("worst").textContent = state.b < 0 ? "Worst first" : "Worst of A first";
  const table = packed.items[packed.runs[state.a].items];
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

/* The run that was chosen may be the other one: then the two change places. */
function chooseRun(place) {
  setRuns(place, state.b === place ? state.a : state.b);
  return again();
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
  const matches = await searchItems(packed.runs[state.a].items, words, told, stopped);
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

/* The row of an id: in the runs that are shown, else in the first run that has it. */
async function findItem(id) {
  const places = [state.a, ...packed.runs.keys()];
  for (const place of places.filter((each, at) => packed.runs.findIndex((run) => run.items === packed.runs[each].items) === each || at === 0)) {
    const [row] = await rowsOfIds(packed.runs[place].items, new Set([id]));
    if (row !== undefined) return [place, row];
  }
  return null;
}

async function showItem(place) {
  const [a, b] = runsOfPlace(place);
  if (a !== state.a || b !== state.b) {
    setRuns(a, b);
    await draw();
  }
  const found = await findItem(place.item);
  if (!found) {
    byId("items-message").textContent = `No item of this page has the id "${visibleName(place.item)}".`;
    byId("items").scrollIntoView();
    return;
  }
  const [run, row] = found;
  if (packed.runs[run].items !== packed.runs[state.a].items) setRuns(run, comparable(run)[0] ?? -1);
  await showRow(row);
}

/* Opens one row and no other; shows all items where the filters leave it out. */
async function showRow(row) {
  const lineOf = () => byId("rows").querySelector(`tr[data-row="${row}"]`);
  if (!lineOf()) {
    if (state.shown.indexOf(row) < 0) {
      clearFilters();
      await draw();
    }
    state.page = Math.floor(state.shown.indexOf(row) / Number(byId("size").value));
    await draw();
  }
  const line = lineOf();
  for (const each of openLines()) if (each !== line) close(each);
  await open(line);
  line.scrollIntoView({ block: "start" });
  line.querySelector("button.item").focus({ preventScroll: true });
}

async function showList(place) {
  setRuns(...runsOfPlace(place));
  clearFilters();
  for (const name of ["outcome", "pair"]) if (CHOICES[name].includes(place[name])) byId(name).value = place[name];
  const table = packed.items[packed.runs[state.a].items];
  for (const [name, values] of [["kind", table.kinds], ["domain", table.domains]]) {
    const code = values.indexOf(place[name]);
    if (code >= 0) byId(name).value = code;
  }
  byId("filters").open ||= FILTERS.some((name) => byId(name).value);
  if (state.b >= 0 && CHOICES.compare.includes(place.compare)) state.compare = place.compare;
  const bin = Number(place.bin);
  if (Number.isInteger(bin) && bin >= 1 && bin <= packed.bins) {
    state.bin = bin - 1;
    state.calibrated = place.calibrated === "1" && "calibrated_bin" in packed.runs[state.a].columns;
  }
  if (place.ids) {
    const rows = await rowsOfIds(packed.runs[state.a].items, new Set(place.ids));
    const mask = new Uint8Array(table.n);
    for (const row of rows) mask[row] = 1;
    state.ids = { asked: place.ids, mask, missing: new Set(place.ids).size - rows.length };
  }
  usualOrder();
  await draw();
}

/* Shows what the address says. After a link, or at the start, the items come into sight. */
async function follow(jump) {
  if (location.hash === state.here) return;
  const before = openLines().at(-1);
  state.here = location.hash;
  const place = readPlace(location.hash);
  if (!place) return;
  if ("item" in place) {
    await showItem(place);
    return;
  }
  await showList(place);
  if (jump) {
    byId("items").scrollIntoView();
    byId("items").focus({ preventScroll: true });
  } else if (before) {
    byId("rows").querySelector(`tr[data-row="${before.dataset.row}"] button.item`)?.focus({ preventScroll: true });
  }
}

/* Opens what a link leads to, and what it is folded in. */
function unfold() {
  const target = byId(location.hash.slice(1));
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target?.scrollIntoView();
}

function listenToAddress() {
  let jump = false;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#items&'], a[href^='#item=']");
    if (!link) return;
    jump = true;
    // The address says it already: it does not change, but the items may have.
    if (link.getAttribute("href") === location.hash) {
      state.here = "";
      follow(true);
    }
  });
  addEventListener("hashchange", () => {
    unfold();
    follow(jump);
    jump = false;
  });
}

function listenToControls() {
  byId("run").addEventListener("change", (event) => chooseRun(Number(event.target.value)));
  byId("other").addEventListener("change", (event) => {
    setRuns(state.a, Number(event.target.value));
    again();
  });
  for (const name of FILTERS) byId(name).addEventListener("change", again);
  byId("size").addEventListener("change", () => {
    state.page = 0;
    draw();
  });
  byId("compare").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    state.compare = button.dataset.compare;
    again();
  });
  byId("controls").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  byId("search").addEventListener("input", () => {
    if (!byId("search").value.trim()) search();
  });
  byId("cancel").addEventListener("click", cancelSearch);
  for (const name of ["worst", "differ"]) {
    byId(name).addEventListener("click", () => {
      Object.assign(state, { sort: name, descending: true, page: 0 });
      draw();
    });
  }
  for (const name of ["reset", "only-reset"]) {
    byId(name).addEventListener("click", () => {
      clearFilters();
      again();
    });
  }
}

function listen() {
  listenToControls();
  listenToAddress();
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
  listenToRuns();
  markSection();
  addCopyButtons();
  addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details")) each.open = true;
  });
  if (!canUnpack) {
    byId("items-message").textContent = "This browser cannot unpack the items (it has no DecompressionStream). Chrome and Edge 80, Firefox 113, Safari 16.4 and later can. Everything else on this page is complete.";
    return;
  }
  packed.runs.forEach((run, place) => byId("run").append(new Option(visibleName(run.label), place)));
  for (const compare of Object.keys(COMPARE_WORDS)) {
    const button = made("button");
    button.type = "button";
    button.dataset.compare = compare;
    byId("compare").append(button);
  }
  setRuns(packed.compared[0], packed.compared[1] ?? -1);
  usualOrder();
  fillChoices();
  listen();
  byId("browser").hidden = false;
  byId("without-texts").hidden = packed.items.some((table) => table.texts) || packed.runs.some((run) => run.options.length);
  await draw();
  await follow(true);
  document.documentElement.dataset.ready = "yes";
}

start();
