"use strict";
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = (theme) => { root.dataset.theme = theme; };
  show(dark.matches ? "dark" : "light");
  document.getElementById("theme").addEventListener("click", () => show(root.dataset.theme === "dark" ? "light" : "dark"));
  // One of several pictures in a place: the buttons above it choose.
  for (const choice of document.querySelectorAll(".choice")) {
    const buttons = [...choice.querySelectorAll("button")];
    const pictures = [...choice.parentElement.querySelectorAll("[data-shows]")];
    const choose = (wanted) => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.value === wanted));
      for (const picture of pictures) picture.hidden = picture.dataset.shows !== wanted;
    };
    for (const button of buttons) button.addEventListener("click", () => choose(button.value));
    choice.hidden = false;
    choose(buttons[0].value);
  }
})();
