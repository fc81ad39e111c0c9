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

// For printing, unfold all details and divide matrices that are too wide for paper.
const MOST_COLUMNS = 24;
const divide = (table) => {
  const columns = table.tHead.rows[0].cells.length - 1;
  const size = Math.ceil(columns / Math.ceil(columns / MOST_COLUMNS));
  const parts = [];
  for (let first = 1; first <= columns; first += size) {
    const part = table.cloneNode(true);
    part.removeAttribute("id");
    part.style.setProperty("--ems", table.style.getPropertyValue("--cell") * size + 6);
    for (const row of part.rows) {
      for (let i = columns; i > 0; i--) if (i < first || i >= first + size) row.deleteCell(i);
    }
    parts.push(part);
  }
  table.before(...parts);
  return parts;
};
let folded = [], parts = [], divided = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const details of folded) details.open = true;
  divided = [...document.querySelectorAll("table.heat")].filter((table) => table.tHead.rows[0].cells.length - 1 > MOST_COLUMNS);
  parts = divided.flatMap(divide);
  for (const table of divided) table.hidden = true;
});
addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
  for (const part of parts) part.remove();
  for (const table of divided) table.hidden = false;
});
document.documentElement.dataset.ready = "yes";
