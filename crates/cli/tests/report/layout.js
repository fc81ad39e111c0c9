// Measures the layout of the page in the frame, and writes it into this page for --dump-dom.
addEventListener("load", () => {
  const page = document.querySelector("iframe").contentDocument;
  const all = (query) => [...page.querySelectorAll(query)].filter((element) => element.checkVisibility());
  const scrolls = (element) => element.scrollWidth > element.clientWidth;
  const regions = (query) => all(".scroll").filter((region) => region.querySelector(query) && scrolls(region));
  const found = {
    width: page.documentElement.clientWidth,
    overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth,
    cut_matrices: regions("table.heat").map((region) => region.getAttribute("aria-label")),
    cut_drawings: regions("svg").length,
    tallest_chip: Math.max(...all("ul.classes li").map((chip) => chip.offsetHeight)),
    // Text of drawings is 11 units high.
    smallest_text: Math.min(...all("svg.numaio").map((svg) => svg.clientWidth / svg.viewBox.baseVal.width * 11)),
    smallest_cell: Math.min(...all("table.heat td").map((cell) => parseFloat(page.defaultView.getComputedStyle(cell).fontSize))),
  };
  // A framed column stays in view whatever the scroll position.
  found.hidden_frames = all(".scroll:has(td.m0)").filter((region) => {
    const [box, cell] = [region, region.querySelector("td.m0")].map((element) => element.getBoundingClientRect());
    return cell.left < box.left - 1 || cell.right > box.right + 1;
  }).length;
  const result = document.createElement("pre");
  result.id = "layout";
  result.textContent = JSON.stringify(found);
  document.body.append(result);
});
