/* Buttons that copy the answer or a table; their texts are in the page. */

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page that is opened as a file may have no clipboard, or no leave to use it.
    const field = made("textarea", "unseen");
    field.value = text;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    return copied;
  }
}

function copyButton(name, text, title, told) {
  const button = made("button", "", name);
  button.type = "button";
  button.setAttribute("aria-label", `Copy ${title} as ${name}`);
  button.addEventListener("click", async () => {
    const copied = await copyText(text());
    told.textContent = copied ? `Copied as ${name}` : "Not copied: select the text instead";
    button.focus();
  });
  return button;
}

function addCopyButtons() {
  for (const script of document.querySelectorAll("script[id^='copies-']")) {
    const target = byId(script.id.slice("copies-".length));
    const texts = JSON.parse(script.textContent);
    const heading = target.querySelector("h2, h3");
    const told = made("span", "copied");
    told.setAttribute("role", "status");
    const box = made("div", "copies", "Copy ");
    for (const name of Object.keys(texts)) {
      box.append(copyButton(name, () => texts[name], heading ? heading.textContent : "the answer", told), " ");
    }
    box.append(told);
    if (target.matches(".table")) heading.after(box);
    else target.append(box);
  }
}
