/* The matrix of runs: the run that was chosen is the reference of all differences. */

function chooseReference(chosen) {
  for (const part of document.querySelectorAll("#runs [data-reference]")) part.hidden = part.dataset.reference !== chosen;
  for (const button of document.querySelectorAll("#runs [data-reference-of]")) {
    const pressed = button.dataset.referenceOf === chosen;
    button.setAttribute("aria-pressed", String(pressed));
    button.closest("tr").classList.toggle("reference", pressed);
  }
}

function listenToRuns() {
  document.getElementById("runs")?.addEventListener("click", (event) => {
    const button = event.target.closest("[data-reference-of]");
    if (button) chooseReference(button.dataset.referenceOf);
  });
}
