/* Draws the formulas of a page with KaTeX, and makes each displayed one as wide as its column at most. */
(function () {
  "use strict";

  function draw(place) {
    const block = place.tagName === "DIV";
    // arithmatex leaves \( ... \) and \[ ... \]
    const source = place.textContent.trim().slice(2, -2);
    window.katex.render(source, place, { displayMode: block, throwOnError: true });
  }

  /* A formula that is broken over lines where it can be still has to fit a phone: its letters shrink as far as needed. */
  function fit(place) {
    place.style.fontSize = "";
    const room = place.clientWidth;
    for (let size = 1; place.scrollWidth > room && size > 0.5; size -= 0.04) {
      place.style.fontSize = (size - 0.04).toFixed(2) + "em";
    }
  }

  function fitAll() {
    document.querySelectorAll("div.arithmatex").forEach(fit);
  }

  document.querySelectorAll(".arithmatex").forEach(draw);
  // widths are known once the fonts are there
  document.fonts.ready.then(fitAll);
  window.addEventListener("resize", fitAll);
})();
