/* Light or dark, by choice or by preference; before anything is drawn. Its name puts it before the scripts that use it. */
(function () {
  "use strict";
  const key = "spikepool-theme";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  function stored() {
    try {
      const kept = window.localStorage.getItem(key);
      return kept === "light" || kept === "dark" ? kept : null;
    } catch (error) {
      return null;
    }
  }
  const current = () => stored() || (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = current();
  window.spikepoolTheme = { key, dark, current };
})();
