/* What is sorted and filtered: whole numbers, one an item. */

const NOT_KNOWN = 65535;
const STEPS = 64;
const tables = [];
const runs = [];

async function loadItems(place) {
  tables[place] ??= columnsOf(packed.items[place].columns);
  return tables[place];
}

async function loadRun(place) {
  runs[place] ??= columnsOf(packed.runs[place].columns);
  return runs[place];
}

function percent(permille) {
  return permille === NOT_KNOWN ? "–" : (permille / 10).toFixed(1);
}

function percentOfSteps(steps) {
  return steps === NOT_KNOWN ? "–" : percent(Math.floor(steps / STEPS));
}

/* Rows by their keys, those of one key in file order. Keys are whole and below 2^32. */
function orderBy(keys) {
  let rows = Uint32Array.from(keys, (_, row) => row);
  let most = 0;
  for (const key of keys) if (key > most) most = key;
  for (let shift = 0; shift === 0 || most >= 2 ** shift; shift += 16) {
    const starts = new Uint32Array(65537);
    for (const row of rows) starts[(Math.floor(keys[row] / 2 ** shift) & 65535) + 1] += 1;
    for (let at = 0; at < 65536; at += 1) starts[at + 1] += starts[at];
    const next = new Uint32Array(rows.length);
    for (const row of rows) {
      const digit = Math.floor(keys[row] / 2 ** shift) & 65535;
      next[starts[digit]] = row;
      starts[digit] += 1;
    }
    rows = next;
  }
  return rows;
}

/* Keys of a column, turned around where the largest comes first; what is not known comes last. */
function sortKeys(values, unknown, descending) {
  let most = 0;
  for (const value of values) if (value !== unknown && value > most) most = value;
  const keys = new Float64Array(values.length);
  for (let row = 0; row < keys.length; row += 1) {
    const value = values[row];
    keys[row] = value === unknown ? most + 1 : descending ? most - value : value;
  }
  return keys;
}

/* Confident errors by confidence, then flips by TV, then other errors, then the rest in file order. */
function worstKeys(columns) {
  const { flags } = packed;
  const keys = new Float64Array(columns.flags.length);
  for (let row = 0; row < keys.length; row += 1) {
    const flag = columns.flags[row];
    let [group, size] = [3, 0];
    if (flag & flags.confident_error) [group, size] = [0, columns.confidence[row]];
    else if (flag & flags.flip) [group, size] = [1, columns.view_tv[row]];
    else if (!(flag & flags.right)) [group, size] = [2, columns.confidence[row]];
    keys[row] = group * 65536 + (65535 - size);
  }
  return keys;
}

function pairState(flag) {
  const { flags } = packed;
  if (!(flag & flags.pair)) return NOT_KNOWN;
  if (flag & flags.pair_right) return 2;
  return flag & flags.pair_wrong ? 0 : 1;
}

function outcomeHolds(flag, wanted) {
  const { flags } = packed;
  return {
    "": true,
    right: flag & flags.right,
    wrong: !(flag & flags.right),
    confident: flag & flags.confident_error,
    flips: flag & flags.flip,
    "pair-right": flag & flags.pair_right,
    "pair-wrong": flag & flags.pair_wrong,
    "pair-one": flag & flags.pair && !(flag & (flags.pair_right | flags.pair_wrong)),
    "pair-same": flag & flags.pair_same,
  }[wanted];
}

/* Where one of two runs alone is right: by the confidence of the one that is wrong. Then both wrong,
   by the larger confidence; then both right, those with a flip first. */
function differKeys(a, b) {
  const { right, flip } = packed.flags;
  const keys = new Float64Array(a.flags.length);
  for (let row = 0; row < keys.length; row += 1) {
    const [ofA, ofB] = [a.flags[row] & right, b.flags[row] & right];
    let [group, size] = [3, 0];
    if (ofA && ofB) group = (a.flags[row] | b.flags[row]) & flip ? 2 : 3;
    else if (!ofA && !ofB) [group, size] = [1, Math.max(a.confidence[row], b.confidence[row])];
    else [group, size] = [0, ofA ? b.confidence[row] : a.confidence[row]];
    keys[row] = group * 65536 + (65535 - size);
  }
  return keys;
}

/* The outcome is one of 128: what it allows is looked up, not computed for every row. */
function allowedFlags(outcome, pair) {
  return Uint8Array.from({ length: 256 }, (_, flag) =>
    outcomeHolds(flag, outcome) && outcomeHolds(flag, pair) ? 1 : 0,
  );
}

/* By whether A is right (2) and B is right (1). */
const COMPARED = ["both-wrong", "only-b", "only-a", "both-right"];

/* The rows that are wanted, in their order, and how many there would be for each of COMPARED. */
function filtered(order, items, a, b, wanted) {
  const allowed = allowedFlags(wanted.outcome, wanted.pair);
  const { right } = packed.flags;
  const bins = wanted.calibrated ? a.calibrated_bin : a.bin;
  const kept = new Uint32Array(order.length);
  const counts = [0, 0, 0, 0];
  let n = 0;
  for (const row of order) {
    if (!allowed[a.flags[row]]) continue;
    if (wanted.kind >= 0 && items.kind[row] !== wanted.kind) continue;
    if (wanted.domain >= 0 && items.domain[row] !== wanted.domain) continue;
    if (wanted.bin >= 0 && bins?.[row] !== wanted.bin) continue;
    if (wanted.ids && !wanted.ids[row]) continue;
    if (wanted.matches && !wanted.matches[row]) continue;
    if (b) {
      const compared = (a.flags[row] & right ? 2 : 0) + (b.flags[row] & right ? 1 : 0);
      counts[compared] += 1;
      if (wanted.compare && COMPARED[compared] !== wanted.compare) continue;
    }
    kept[n] = row;
    n += 1;
  }
  return [kept.subarray(0, n), counts];
}
