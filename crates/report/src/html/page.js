"use strict";
// Switches the statistic that a matrix shows. The embedded data is parsed on first use.
let parsedGrids;
const grids = () =>
  (parsedGrids ??= new Map(JSON.parse(document.getElementById("data").textContent).grids.map((grid) => [grid.id, grid])));

// Intervals and drift are in parts of 10,000 of the value.
const percent = (parts, sign) => (sign && parts > 0 ? "+" : "") + (parts / 100).toFixed(1).replace("-", "−");
const formats = {
  interval: (grid, i) => percent((grid.below[i] + grid.above[i]) / 2),
  n: (grid, i) => String(grid.n[i]),
  drift: (grid, i) => percent(grid.drift[i], true),
};
const end = (grid, i, parts) => (grid.value[i] * (1 + parts / 1e4)).toPrecision(4);
const tooltip = (grid, i) =>
  `${grid.value[i]} ${grid.unit}, 95 % ${end(grid, i, -grid.below[i])} to ${end(grid, i, grid.above[i])}, ` +
  `n ${grid.n[i]}, drift ${formats.drift(grid, i)} %`;

for (const choice of document.querySelectorAll("fieldset[data-grid]")) {
  const table = document.getElementById(choice.dataset.grid);
  let cells, values;
  const grid = () => {
    cells ??= [...table.querySelectorAll("tbody td")];
    values ??= cells.map((cell) => cell.firstChild.data);
    return grids().get(table.id);
  };
  choice.hidden = false;
  choice.addEventListener("change", (event) => {
    const [data, format] = [grid(), formats[event.target.value]];
    cells.forEach((cell, i) => {
      if (data.value[i] !== null) cell.firstChild.data = format ? format(data, i) : values[i];
    });
  });
  table.addEventListener("pointerover", (event) => {
    const [data, i] = [grid(), cells.indexOf(event.target.closest("td"))];
    if (i >= 0 && !cells[i].title && data.value[i] !== null) cells[i].title = tooltip(data, i);
  });
}

// Unfold all details for printing.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
});
document.documentElement.dataset.ready = "yes";
