/* The probabilities of one item under one run, as bars: a column per view, a row per answer. */

const DISTRIBUTION_WORDS = { ensemble: "mean of views" };

function percentOrUnknown(steps) {
  return steps === NOT_KNOWN ? "not known" : `${percentOfSteps(steps)}%`;
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
  return { distributions: taken(views, names), orders: taken(orders, place.k), tops: [...tops.subarray(first, first + names)] };
}

function barCell(permille, tone, letter, top) {
  const cell = made("td", `${top ? "top " : ""}${tone}`);
  if (letter) cell.append(made("span", "code", letter), " ");
  cell.append(`${percent(permille)}%`);
  const fill = made("span", "fill");
  fill.style.width = `${permille === NOT_KNOWN ? 0 : permille / 10}%`;
  cell.append(made("span", "bar", fill));
  return cell;
}

function barRow(shown, index) {
  const { names, found, answers, kind, reference, answer } = shown;
  const name = fillText(made("th"), answers ? answers[index][0] : answerName(kind, index), 300);
  name.scope = "row";
  if (index === reference) name.append(" ", made("span", "badge right", "reference"));
  if (index === answer) name.append(" ", made("span", `badge ${index === reference ? "right" : "wrong"}`, "answer"));
  const line = made("tr", "", name);
  names.forEach((_, at) => {
    const top = found.tops[at] === index;
    const tone = index === reference ? "of-reference" : top ? "of-error" : "";
    const position = at < found.orders.length ? found.orders[at].indexOf(index) : -1;
    line.append(barCell(found.distributions[at][index], tone, letterAt(position), top));
  });
  return line;
}

/* "The answer changes with the order of the letters: yes in views 0 and 2; no in view 1." */
function flipLine(shown, views) {
  const { found, answers, kind } = shown;
  const places = new Map();
  found.tops.slice(0, views).forEach((top, view) => {
    places.set(top, [...(places.get(top) ?? []), view]);
  });
  if (places.size < 2) return null;
  const line = made("p", "flips", "The answer changes with the order of the letters: ");
  [...places].forEach(([top, at], number) => {
    if (number) line.append("; ");
    const last = at.at(-1);
    const which = at.length > 1 ? `views ${at.slice(0, -1).join(", ")} and ${last}` : `view ${last}`;
    line.append(made("strong", "", answerText(kind, answers, top, 80)), ` in ${which}`);
  });
  line.append(".");
  return line;
}

/* A run on an item: its answer, how it flips, and a table of bars. */
async function runBox(name, run, items, row, texts) {
  const place = packed.runs[run];
  const [columns, table] = [await loadRun(run), packed.items[place.items]];
  const kind = table.kinds[items.kind[row]];
  const shown = {
    names: place.distributions,
    found: await probabilitiesOf(run, items, row),
    answers: answersOf(run, columns, row, texts, items.choices[row]),
    kind,
    reference: items.reference[row],
    answer: columns.answer[row],
  };
  const right = shown.answer === shown.reference;
  const title = made("h4", "", ...(name ? [`${name}: `] : []), isolated(place.label), " ");
  title.append(made("span", `badge ${right ? "right" : "wrong"}`, right ? "right" : "wrong"));
  const box = made("div", "run-box", title);
  box.append(made("p", "meta", `Confidence ${percentOrUnknown(columns.confidence[row])}; View TV ${percentOrUnknown(columns.view_tv[row])}; answer mass ${percentOrUnknown(columns.answer_mass[row])}`));
  const head = made("tr", "", made("th", "", "answer"), ...place.distributions.map((each) => made("th", "", DISTRIBUTION_WORDS[each] ?? each)));
  for (const cell of head.children) cell.scope = "col";
  const rows = shown.found.distributions[0].map((_, index) => barRow(shown, index));
  const bars = made("table", "answers", made("thead", "", head), made("tbody", "", ...rows));
  box.append(scrolled(bars, `Probabilities of ${place.label}`), flipLine(shown, place.k) ?? "");
  return box;
}

/* A region that scrolls sideways can be reached with Tab. */
function scrolled(table, label) {
  const box = made("div", "scroll", table);
  box.tabIndex = 0;
  box.role = "region";
  box.ariaLabel = label;
  return box;
}
