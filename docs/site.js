// What scrolls can be scrolled with the keyboard, and the copy buttons of several blocks have
// several names. The theme makes both while a page is read, so this looks again when it changes.
{
  const article = document.querySelector("article");

  const mend = () => {
    for (const box of article.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
    [...article.querySelectorAll(".md-code__nav")].forEach((nav, place) => {
      nav.ariaLabel = `Code ${place + 1}`;
    });
  };

  new MutationObserver(mend).observe(article, { childList: true, subtree: true });
  addEventListener("resize", mend);
  mend();
}
