// Charts. Each is drawn again when its room, the colours or a choice change, and saved as it is seen.
const openFigures = new Set();
redraws.push(() => openFigures.forEach((redraw) => redraw()));

/** A figure: title, chart, caption, the numbers as a table, and a button that saves the chart.
 * draw(colours, width) gives an SVG; table: { head, rows } of texts, made when it is opened. */
function addFigure(container, { title, name, draw, caption = "", table, full = false, after = null }) {
  const plot = make("div", { class: "plot", role: "img", "aria-label": say`${title}. The same numbers are in the table below.` });
  const save = make("button", { type: "button", class: "save", onclick: () => saveSvg(draw(THEMES.light, 760), name) }, "SVG", make("span", { class: "words" }, say` of ${title}`));
  const details = make("details", {}, make("summary", {}, say`As a table`));
  const figure = make("figure", { class: full ? "full" : "" }, make("div", { class: "bar" }, make("h3", {}, title), save), plot,
    caption ? make("figcaption", {}, caption) : null, after,
    details);
  details.addEventListener("toggle", () => details.append(plainTable(table.head, typeof table.rows === "function" ? table.rows() : table.rows, title)), { once: true });
  container.append(figure);
  let width = 0;
  const redraw = () => {
    if (!figure.isConnected) { openFigures.delete(redraw); observer.disconnect(); return; }
    const svg = draw(themeNow(), Math.max(280, width || plot.clientWidth));
    svg.setAttribute("aria-hidden", "true");
    plot.replaceChildren(svg);
  };
  const observer = new ResizeObserver(() => {
    if (Math.abs(plot.clientWidth - width) < 2) return;
    width = plot.clientWidth;
    redraw();
  });
  observer.observe(plot);
  openFigures.add(redraw);
}

function plainTable(head, rows, label) {
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, make("table", { class: "sortable" },
    make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((text) => (text instanceof Node ? make("td", {}, text) : words("td", text))))))));
}

const look = (colours, width) => ({ width, style: { fontSize: "12px", color: colours.ink, background: "none", fontFamily: "inherit" } });
/** Letters of a name that fit into a share of the width. */
const letters = (width, share = 0.36) => Math.max(12, Math.floor((width * share) / 6.6));
const marginFor = (names) => 18 + 7 * d3.max(names, (name) => d3.sum(name, (letter) => (letter > "\u2e80" ? 1.8 : 1)));
const short = (text, width) => clip(text, letters(width));
/** Names as they fit, each still by itself. */
function shortNames(names, width) {
  const cut = names.map((name) => short(name, width));
  return cut.map((name, index) => (cut.indexOf(name) === index && cut.lastIndexOf(name) === index ? name : `${clip(name, letters(width) - 3)} ${index + 1}`));
}
const ruler = document.createElement("canvas").getContext("2d");
/** Pixels that a text takes in a figure. */
function widthOf(text) {
  ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}
/** Names of series beside their colours, above the frame. */
function legend(names, colours, width) {
  const entries = [];
  let x = 4, y = 0;
  for (const [index, name] of names.entries()) {
    const text = clip(name, letters(width, 0.8)), room = 26 + widthOf(text);
    if (x + room > width && x > 4) { x = 4; y += 18; }
    entries.push({ x, y, text, colour: colours.series[index % colours.series.length] });
    x += room;
  }
  const marks = (marginLeft, marginTop) => entries.flatMap((entry) => [
    Plot.dot([0], { frameAnchor: "top-left", dx: entry.x - marginLeft, dy: entry.y - marginTop + 24, r: 4, fill: entry.colour }),
    Plot.text([entry.text], { frameAnchor: "top-left", textAnchor: "start", dx: entry.x - marginLeft + 9, dy: entry.y - marginTop + 24, lineAnchor: "middle", fill: colours.ink }),
  ]);
  return { height: names.length > 1 ? y + 24 : 0, marks: (left, top) => (names.length > 1 ? marks(left, top) : []) };
}
