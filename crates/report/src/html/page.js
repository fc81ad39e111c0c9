"use strict";
// Matrices show what one chooses; everything else works without a script.
const grids = new Map(JSON.parse(document.getElementById("data").textContent).grids.map((grid) => [grid.id, grid]));
const percent = (share, sign) => (sign && share > 0 ? "+" : "") + (share * 100).toFixed(1).replace("-", "−");
const forms = {
  interval: (grid, i) => percent((grid.high[i] - grid.low[i]) / 2 / grid.value[i]),
  n: (grid, i) => String(grid.n[i]),
  drift: (grid, i) => percent(grid.drift[i], true),
};
const words = (grid, i) =>
  `${grid.value[i]} ${grid.unit}, 95 % ${grid.low[i]} to ${grid.high[i]}, n ${grid.n[i]}, drift ${forms.drift(grid, i)} %`;

for (const choice of document.querySelectorAll("fieldset[data-grid]")) {
  const grid = grids.get(choice.dataset.grid);
  const table = document.getElementById(grid.id);
  const cells = [...table.querySelectorAll("tbody td")];
  const values = cells.map((cell) => cell.firstChild.data);
  choice.hidden = false;
  choice.addEventListener("change", (event) => {
    const form = forms[event.target.value];
    cells.forEach((cell, i) => {
      if (grid.value[i] !== null) cell.firstChild.data = form ? form(grid, i) : values[i];
    });
  });
  table.addEventListener("pointerover", (event) => {
    const i = cells.indexOf(event.target.closest("td"));
    if (i >= 0 && !cells[i].title && grid.value[i] !== null) cells[i].title = words(grid, i);
  });
}

// On paper nothing is folded.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
});
document.documentElement.dataset.ready = "yes";
