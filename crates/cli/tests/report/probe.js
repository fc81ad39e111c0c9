// Collects properties of the page, and writes them into the page for --dump-dom.
const found = { drawn_ms: 0 };
document.body.getBoundingClientRect();
found.drawn_ms = performance.now();
const all = (query) => [...document.querySelectorAll(query)];
for (const details of all("details")) details.open = true;
found.ready = document.documentElement.dataset.ready || "no";
const empty = (element) => {
  const box = element.getBoundingClientRect();
  return !(box.width > 0 && box.height > 0);
};
found.svgs = all("svg").length;
const visible = (element) => element.checkVisibility();
found.empty_svgs = all("svg").filter(visible).filter(empty).length;
found.drawings = all("svg.numaio").filter(visible).length;
found.bars = all("rect.bar").length;
found.empty_bars = all("rect.bar").filter(empty).length;
found.curves = all("line.curve").length;
found.broken = all("svg *").filter((e) => [...e.attributes].some((a) => /NaN|Infinity/.test(a.value))).length;
found.headings = all("h1,h2,h3,h4,h5,h6").map((heading) => Number(heading.tagName[1]));
found.scripts = all("script").length;
found.images = all("img,iframe,object,embed,link,image,use,audio,video,form").length;
const ids = all("[id]").map((element) => element.id);
found.double_ids = ids.filter((id, index) => ids.indexOf(id) !== index);
found.dead_links = all("[aria-describedby],[aria-labelledby]").filter((element) =>
  ["aria-describedby", "aria-labelledby"].some((name) =>
    element.hasAttribute(name) && !document.getElementById(element.getAttribute(name)))).length
  + all("a[href]").filter((a) => !document.getElementById(a.getAttribute("href").slice(1))).length;
found.tables_without_caption = all("table").filter((table) => !table.caption).length;
found.heads_without_scope = all("th:not([scope])").length;
found.nameless_images = all("[role=img]").filter((image) => !image.getAttribute("aria-label")).length;
found.landmarks = ["header", "nav", "main", "footer"].filter((name) => document.querySelector(name)).length;
found.resources = performance.getEntriesByType("resource").length;
found.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
found.texts = Object.fromEntries(all("table.heat[id]").map((table) =>
  [table.id, [...table.querySelectorAll("tbody td")].map((cell) => cell.firstChild.data)]));
found.figures = Object.fromEntries(all(".direction table[id]").map((table) =>
  [table.id, [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))]));
found.data = JSON.parse(document.getElementById("data").textContent);

// Contrast of every text with its background, computed as in WCAG 2.2.
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const known = new Map();
const rgba = (colour) => {
  if (!known.has(colour)) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    known.set(colour, [...canvas.getImageData(0, 0, 1, 1).data]);
  }
  return known.get(colour);
};
const luminance = (colour) => {
  const [r, g, b] = colour.slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const background = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = rgba(getComputedStyle(at).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255, 255];
};
const worst_contrast = () => {
  let worst = [99, ""];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const tried = new Set();
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || element.closest("script,title,svg .bang")) continue;
    const style = getComputedStyle(element);
    const colour = element.closest("svg") ? style.fill : style.color;
    const back = background(element);
    const key = `${colour} ${back} ${style.opacity}`;
    if (tried.has(key)) continue;
    tried.add(key);
    const opacity = Number(style.opacity);
    const ink = rgba(colour).map((part, i) => part * opacity + back[i] * (1 - opacity));
    const [one, other] = [luminance(ink), luminance(back)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < worst[0]) worst = [ratio, `${element.tagName} ${element.className} ${texts.currentNode.data}`];
  }
  return worst;
};
found.schemes = {};
for (const scheme of ["auto", "light", "dark"]) {
  document.getElementById(`colors-${scheme}`).checked = true;
  const [ratio, where] = worst_contrast();
  found.schemes[scheme] = { page: rgba(getComputedStyle(document.body).backgroundColor).slice(0, 3), ratio, where };
}

// The selection of the value that cells show.
const choice = document.querySelector("fieldset[data-grid]");
if (choice) {
  const cell = document.getElementById(choice.dataset.grid).querySelector("tbody td");
  const show = (value) => {
    const input = choice.querySelector(`input[value=${value}]`);
    input.checked = true;
    input.dispatchEvent(new Event("change", { bubbles: true }));
    return cell.firstChild.data;
  };
  found.choice = { id: choice.dataset.grid, hidden: choice.hidden, shown: ["interval", "n", "drift", "value"].map(show) };
}
const result = document.createElement("pre");
result.id = "probe";
result.textContent = JSON.stringify(found).replace(/[<>&]/g, (c) => "\\u00" + c.charCodeAt(0).toString(16));
document.body.append(result);
