"use strict";
// Draws the heat map of a group: a row for each host, a column for each figure.
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const MARK_WIDTH = 8, MOST_DETAILS = 30;
const levels = new Uint8Array(128);
[...data.alphabet].forEach((character, index) => { levels[character.charCodeAt(0)] = index; });
const missing = data.alphabet.length - 1;
const signed = (percent) => (percent > 0 ? "+" : "") + String(percent).replace("-", "−") + " %";

const state = { map: 0, order: [], selected: -1, width: 1, height: 1 };
const level = (map, host, figure) => levels[map.cells.charCodeAt(host * map.figures.length + figure)];
const deviation = (value) =>
  value === missing ? "not measured" : (value === 0 ? "at most " : value === missing - 1 ? "at least " : "") + signed(value - data.zero);

// Colors come from the style sheet, so that they follow the color scheme.
const color = (name) => {
  const probe = document.createElement("i");
  probe.className = name;
  document.body.append(probe);
  const found = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  probe.remove();
  return found;
};
const palette = () => {
  const [worse, better, base, none] = ["worse-color", "better-color", "base-color", "missing-color"].map(color);
  return [...data.alphabet].map((_, index) => {
    if (index === missing) return none;
    const share = Math.min(1, Math.abs(index - data.zero) / 30);
    const end = index < data.zero ? worse : better;
    return base.map((from, i) => Math.round(from + (end[i] - from) * Math.sqrt(share)));
  });
};

const medians = (map) =>
  map.hosts.map((_, host) => {
    const known = map.figures.map((_, figure) => level(map, host, figure)).filter((value) => value !== missing);
    return known.sort((a, b) => a - b)[known.length >> 1] ?? missing;
  });
const sort = (map) => {
  const order = map.hosts.map((_, host) => host);
  const by = byId("map-order").value;
  const name = (a, b) => map.hosts[a].localeCompare(map.hosts[b], undefined, { numeric: true });
  if (by === "name") return order.sort(name);
  map.medians ??= medians(map);
  const marks = by === "findings" ? (host) => Number(map.marks[host]) : () => 0;
  return order.sort((a, b) => marks(b) - marks(a) || map.medians[a] - map.medians[b] || name(a, b));
};

const draw = () => {
  const map = data.maps[state.map], colors = palette();
  const columns = map.figures.length, rows = state.order.length;
  state.height = Math.max(1, Math.min(16, Math.floor(640 / rows)));
  state.width = Math.max(2, Math.min(18, Math.floor((byId("map").parentElement.clientWidth - MARK_WIDTH - 4) / columns)));
  const cells = new ImageData(columns, rows);
  state.order.forEach((host, row) => {
    for (let figure = 0; figure < columns; figure++) {
      const at = (row * columns + figure) * 4;
      cells.data.set(colors[level(map, host, figure)], at);
      cells.data[at + 3] = 255;
    }
  });
  const small = document.createElement("canvas");
  [small.width, small.height] = [columns, rows];
  small.getContext("2d").putImageData(cells, 0, 0);
  const canvas = byId("map-canvas"), context = canvas.getContext("2d");
  [canvas.width, canvas.height] = [MARK_WIDTH + columns * state.width, rows * state.height];
  context.imageSmoothingEnabled = false;
  context.drawImage(small, MARK_WIDTH, 0, columns * state.width, rows * state.height);
  const marks = [null, ...["setting-color", "figures-color", "structure-color"].map(color)];
  state.order.forEach((host, row) => {
    const mark = marks[Number(map.marks[host])];
    if (!mark && host !== state.selected) return;
    context.fillStyle = `rgb(${(mark ?? color("better-color")).join(" ")})`;
    context.fillRect(host === state.selected ? 0 : 2, row * state.height, host === state.selected ? MARK_WIDTH - 1 : 4, Math.max(1, state.height));
  });
  drawScale(colors);
};
const drawScale = (colors) => {
  const scale = byId("map-scale"), context = scale.getContext("2d"), step = scale.width / missing;
  for (let index = 0; index < missing; index++) {
    context.fillStyle = `rgb(${colors[index].join(" ")})`;
    context.fillRect(index * step, 0, step + 1, scale.height);
  }
};

const cellAt = (event) => {
  const map = data.maps[state.map];
  const row = Math.floor(event.offsetY / state.height), figure = Math.floor((event.offsetX - MARK_WIDTH) / state.width);
  const host = state.order[row];
  return host === undefined ? null : { map, host, figure: figure >= 0 && figure < map.figures.length ? figure : null };
};
const probe = ({ map, host, figure }) =>
  map.hosts[host] + (figure === null ? "" : `: ${map.figures[figure]}, ${deviation(level(map, host, figure))} (median of the group ${map.typical[figure]})`);

// One host beside its group: its greatest deviations.
const element = (name, text, className) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
};
const select = (host) => {
  state.selected = host;
  const map = data.maps[state.map], box = byId("map-detail");
  box.replaceChildren();
  if (host < 0) return draw();
  const known = map.figures.map((_, figure) => [figure, level(map, host, figure)]).filter(([, value]) => value !== missing);
  known.sort((a, b) => Math.abs(b[1] - data.zero) - Math.abs(a[1] - data.zero));
  box.append(element("h3", `${map.hosts[host]} beside its group`));
  box.append(element("p", `Greatest deviations of ${known.length} figures, rounded to 1 %.`, "how"));
  const table = element("table"), head = element("tr"), body = element("tbody");
  for (const title of ["Figure", "Median of the group", "Deviation", ""]) head.append(element("th", title));
  table.append(element("thead"));
  table.tHead.append(head);
  for (const [figure, value] of known.slice(0, MOST_DETAILS)) {
    const row = element("tr"), bar = element("span", undefined, "detail-bar " + (value < data.zero ? "worse" : "better"));
    bar.style.width = `${(Math.abs(value - data.zero) / missing) * 16}em`;
    row.append(element("td", map.figures[figure]), element("td", map.typical[figure], "number"), element("td", deviation(value), "number"));
    row.append(element("td"));
    row.lastChild.append(bar);
    body.append(row);
  }
  table.append(body);
  box.append(table);
  draw();
};

const show = () => {
  const map = data.maps[state.map];
  byId("map-hosts").replaceChildren(...map.hosts.map((host) => Object.assign(element("option"), { value: host })));
  state.order = sort(map);
  select(-1);
};
if (data.maps.length > 0) {
  document.querySelector(".controls").hidden = false;
  byId("map-group").addEventListener("change", (event) => { state.map = Number(event.target.value); show(); });
  byId("map-order").addEventListener("change", () => { state.order = sort(data.maps[state.map]); draw(); });
  byId("map-host").addEventListener("change", (event) => {
    const host = data.maps[state.map].hosts.indexOf(event.target.value.trim());
    select(host);
    byId("map-probe").textContent = host < 0 && event.target.value ? `no host '${event.target.value}' in this group` : "";
    if (host >= 0) byId("map-box").scrollTop = state.order.indexOf(host) * state.height - 100;
  });
  byId("map-canvas").addEventListener("pointermove", (event) => {
    const cell = cellAt(event);
    byId("map-probe").textContent = cell ? probe(cell) : "";
  });
  byId("map-canvas").addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) { byId("map-host").value = cell.map.hosts[cell.host]; select(cell.host); }
  });
  for (const choice of document.querySelectorAll("fieldset.colors input")) choice.addEventListener("change", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", draw);
  show();
}
document.documentElement.dataset.ready = "yes";
