/* The context of an item next to that of its pair, and the prompt as it was scored. */

function lengthOf(part) {
  return typeof part === "string" ? part.length : part[0].length;
}

/* The prompt of a view: parts of the canonical prompt, with the text of one place replaced. */
function promptOfView(parts, change) {
  if (!change) return parts;
  const [start, end, text] = change;
  const [before, after] = [[], []];
  let at = 0;
  for (const part of parts) {
    const [mine, other] = typeof part === "string" ? [part, null] : part;
    const first = mine.slice(0, Math.max(0, start - at));
    const last = mine.slice(Math.max(0, end - at));
    if (first || (other !== null && at < start)) before.push(other === null ? first : [first, other]);
    if (last || (other !== null && !mine && at >= end)) after.push(other === null ? last : [last, other]);
    at += mine.length;
  }
  return [...before, text, ...after];
}

/* Text as it was; words that the other member of the pair does not have are marked. */
function fillPrompt(box, parts, limit) {
  let left = limit;
  for (const part of parts) {
    if (left <= 0) break;
    const [mine, other] = typeof part === "string" ? [part, null] : part;
    const shown = isolated(cut(mine, left));
    if (other === null) box.append(shown);
    else {
      const mark = made("mark", mine ? "edit" : "edit gap", shown);
      mark.title = other ? `the other member of the pair has: ${cut(other, 200)}` : "not in the other member of the pair";
      box.append(mark);
    }
    left -= mine.length;
  }
}

function message(role, parts) {
  const text = made("div", "message");
  const total = parts.reduce((sum, part) => sum + lengthOf(part), 0);
  fillPrompt(text, parts, TEXT_SHOWN);
  const box = made("div", "", made("p", "meta", role), text);
  if (total > TEXT_SHOWN) {
    const button = made("button", "", `Show all ${total.toLocaleString("en")} signs`);
    button.type = "button";
    button.addEventListener("click", () => {
      text.replaceChildren();
      fillPrompt(text, parts, Infinity);
      button.remove();
    });
    box.append(button);
  }
  return box;
}

function viewChoice(k, chosen) {
  const select = made("select");
  for (let view = 0; view < k; view += 1) select.append(new Option(`view ${view}`, view));
  select.addEventListener("change", () => chosen(Number(select.value)));
  return made("label", "meta", "Letters of ", select);
}

async function promptBox(run, row, texts) {
  const place = packed.runs[run];
  const table = packed.items[place.items];
  const parts = texts[3];
  if (!parts || !place.prompts) return made("p", "prompt meta", `Scored prompt not shown: ${place.no_prompt}.`);
  const box = made("details", "prompt", made("summary", "", "Scored prompt"));
  if (!place.same_data) box.append(made("p", "meta", "The data given are not the file that this run scored, so its prompt may have been another."));
  const changes = (await inBlocks(place.prompts, row, jsonOf))[row % place.prompts.size];
  const shown = made("div");
  const show = (view) => shown.replaceChildren(message("user", promptOfView(parts, changes[view])));
  if (place.k > 1) box.append(viewChoice(place.k, show));
  const system = made("details", "", made("summary", "", "system, the same for every item"), fillText(made("div", "message"), table.system));
  box.append(system, shown);
  show(0);
  return box;
}

function contextBox(title, lines, side) {
  const total = lines.reduce((sum, [, parts]) => sum + sideLength(parts, side), 0);
  const context = made("div", "context");
  fillContext(context, lines, side, TEXT_SHOWN);
  if (total > TEXT_SHOWN) {
    const button = made("button", "", `Show all ${total.toLocaleString("en")} signs`);
    button.type = "button";
    button.addEventListener("click", () => {
      context.replaceChildren();
      fillContext(context, lines, side, Infinity);
    });
    context.append(button);
  }
  return made("div", "edit-box", made("h4", "", title), context);
}

/* The context of an item, and next to it that of the other member of its pair. */
function contextBoxes(lines, variant) {
  const edited = lines.some(([, parts]) => parts.some((part) => typeof part !== "string"));
  if (!edited) return [contextBox("Context", lines, 0)];
  const names = variant ? [VARIANTS[variant], VARIANTS[3 - variant]] : ["context", "context"];
  return [contextBox(`This item: ${names[0]}`, lines, 0), contextBox(`Other member of the pair: ${names[1]}`, lines, 1)];
}
