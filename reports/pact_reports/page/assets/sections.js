/* Marks the section that is read in the navigation: the last one that begins just below the links. */
function markSection() {
  const links = [...document.querySelectorAll("nav a")];
  const sections = links.map((link) => document.getElementById(link.hash.slice(1)));
  let waits = false;
  const mark = () => {
    waits = false;
    const line = document.querySelector("nav").getBoundingClientRect().bottom + 40;
    const atEnd = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
    let current = atEnd ? sections.length - 1 : 0;
    if (!atEnd) sections.forEach((section, at) => {
      if (section.getBoundingClientRect().top <= line) current = at;
    });
    links.forEach((link, at) => (at === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  };
  const later = () => {
    if (!waits) requestAnimationFrame(mark);
    waits = true;
  };
  for (const event of ["scroll", "resize"]) addEventListener(event, later, { passive: true });
  mark();
}
