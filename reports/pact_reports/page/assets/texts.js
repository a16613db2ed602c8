/* Text from data as nodes: never as HTML. Invisible characters are shown as badges. */

const TEXT_SHOWN = 4000;
const UNSEEN = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u115f\u1160\u3164\uffa0]|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])/gu;

function made(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

function codePoint(sign) {
  return `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function appendText(node, text) {
  let at = 0;
  for (const match of text.matchAll(UNSEEN)) {
    if (match.index > at) node.append(text.slice(at, match.index));
    const badge = made("span", "control", codePoint(match[0]));
    badge.title = "A sign that cannot be seen";
    node.append(badge);
    at = match.index + match[0].length;
  }
  if (at < text.length) node.append(text.slice(at));
  return node;
}

/* A text with an isolated direction; a name of words joined by underscores may break after each. */
function isolated(text) {
  const node = document.createElement("bdi");
  node.dir = "auto";
  if (!/^\S*_\S*$/.test(text)) return appendText(node, text);
  text.split(/(?<=_)/).forEach((part, at) => {
    if (at) node.append(made("wbr"));
    appendText(node, part);
  });
  return node;
}

function cut(text, length) {
  const end = /[\ud800-\udbff]/.test(text.charAt(length - 1)) ? length - 1 : length;
  return text.slice(0, end);
}

/* Fills a node with a text, the beginning of it where it is long. */
function fillText(node, text, limit = TEXT_SHOWN) {
  if (text.length <= limit) {
    node.append(isolated(text));
    return node;
  }
  const button = made("button", "", `Show all ${text.length.toLocaleString("en")} signs`);
  button.type = "button";
  button.addEventListener("click", () => node.replaceChildren(isolated(text)));
  node.append(isolated(cut(text, limit)), " … ", button);
  return node;
}

/* Lines of a context as one member of a pair has them, up to a number of signs; words that the other
   member lacks are marked. Side 0 is the item itself, side 1 the other member. */
function fillContext(box, lines, side, limit) {
  let left = limit;
  for (const [label, parts] of lines) {
    if (left <= 0) return;
    if (!sideLength(parts, side)) continue;
    const line = made("div", "line");
    line.dir = "auto";
    if (label) line.append(made("span", "label", isolated(label)), ": ");
    for (const part of parts) {
      if (left <= 0) break;
      const text = sideOf(part, side);
      if (!text) continue;
      const shown = isolated(cut(text, left));
      line.append(typeof part === "string" ? shown : made("mark", "edit", shown));
      left -= text.length;
    }
    box.append(line);
  }
}

function sideOf(part, side) {
  return typeof part === "string" ? part : part[side];
}

function sideLength(parts, side) {
  return parts.reduce((sum, part) => sum + sideOf(part, side).length, 0);
}

/* An answer in a few words: its key, or the level of a score with what it means. */
function answerText(kind, answers, index, length) {
  if (!answers) return answerName(kind, index);
  const [key, description] = answers[index];
  return isolated(cut(kind === "score" && description ? `${key}: ${description}` : key, length));
}
