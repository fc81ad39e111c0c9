// Looks at the page from within, and leaves what it saw in the page, for --dump-dom.
const seen = { drawn_ms: 0 };
document.body.getBoundingClientRect();
seen.drawn_ms = performance.now();
const all = (query) => [...document.querySelectorAll(query)];
for (const details of all("details")) details.open = true;
seen.ready = document.documentElement.dataset.ready || "no";
const empty = (element) => {
  const box = element.getBoundingClientRect();
  return !(box.width > 0 && box.height > 0);
};
seen.svgs = all("svg").length;
seen.empty_svgs = all("svg").filter(empty).length;
seen.bars = all("rect.bar").length;
seen.empty_bars = all("rect.bar").filter(empty).length;
seen.curves = all("line.curve").length;
seen.broken = all("svg *").filter((e) => [...e.attributes].some((a) => /NaN|Infinity/.test(a.value))).length;
seen.headings = all("h1,h2,h3,h4,h5,h6").map((heading) => Number(heading.tagName[1]));
seen.scripts = all("script").length;
seen.images = all("img,iframe,object,embed,link,image,use,audio,video,form").length;
const ids = all("[id]").map((element) => element.id);
seen.double_ids = ids.filter((id, index) => ids.indexOf(id) !== index);
seen.dead_links = all("[aria-describedby],[aria-labelledby]").filter((element) =>
  ["aria-describedby", "aria-labelledby"].some((name) =>
    element.hasAttribute(name) && !document.getElementById(element.getAttribute(name)))).length
  + all("a[href]").filter((a) => !document.getElementById(a.getAttribute("href").slice(1))).length;
seen.tables_without_caption = all("table").filter((table) => !table.caption).length;
seen.heads_without_scope = all("th:not([scope])").length;
seen.nameless_images = all("[role=img]").filter((image) => !image.getAttribute("aria-label")).length;
seen.landmarks = ["header", "nav", "main", "footer"].filter((name) => document.querySelector(name)).length;
seen.resources = performance.getEntriesByType("resource").length;
seen.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
seen.texts = Object.fromEntries(all("table.heat[id]").map((table) =>
  [table.id, [...table.querySelectorAll("tbody td")].map((cell) => cell.firstChild.data)]));
seen.figures = Object.fromEntries(all("figure.direction table[id]").map((table) =>
  [table.id, [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))]));
seen.data = JSON.parse(document.getElementById("data").textContent);

// Contrast as WCAG 2.2 reckons it, of every text on its background.
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
const behind = (element) => {
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
    const back = behind(element);
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
seen.schemes = {};
for (const scheme of ["auto", "light", "dark"]) {
  document.getElementById(`colors-${scheme}`).checked = true;
  const [ratio, where] = worst_contrast();
  seen.schemes[scheme] = { page: rgba(getComputedStyle(document.body).backgroundColor).slice(0, 3), ratio, where };
}

// The choice of what cells show.
const choice = document.querySelector("fieldset[data-grid]");
if (choice) {
  const cell = document.getElementById(choice.dataset.grid).querySelector("tbody td");
  const show = (value) => {
    const input = choice.querySelector(`input[value=${value}]`);
    input.checked = true;
    input.dispatchEvent(new Event("change", { bubbles: true }));
    return cell.firstChild.data;
  };
  seen.choice = { id: choice.dataset.grid, hidden: choice.hidden, shown: ["interval", "n", "drift", "value"].map(show) };
}
const left = document.createElement("pre");
left.id = "probe";
left.textContent = JSON.stringify(seen).replace(/[<>&]/g, (c) => "\\u00" + c.charCodeAt(0).toString(16));
document.body.append(left);
