"use strict";
// What all parts of a page share: its data, colours, and how an element is made. Texts are never markup: they are
// only ever set as text, and the page's policy refuses everything else.
const DATA = JSON.parse(document.getElementById("data").textContent);

for (const element of document.querySelectorAll("[data-scripted]")) element.hidden = false;

/** An element with attributes and children; a child that is no element is text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/** Text with its language, so that a screen reader and the choice of glyphs know Chinese from English. */
function words(tag, text) {
  return make(tag, /\p{Script=Han}/u.test(text) ? { lang: "zh-Hans" } : {}, text);
}

function facts(list, pairs) {
  list.replaceChildren(...pairs.filter(([, text]) => text).flatMap(([name, text]) => [make("dt", {}, name), words("dd", text)]));
}

const fixed = (value, digits = 1) => value.toFixed(digits);
const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(1);
const clip = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

// Colours of charts; those of the page are in its style.
const THEMES = {
  light: { paper: "#ffffff", ink: "#1a1d21", quiet: "#59616d", line: "#dfe3e8", accent: "#1261a8", warm: "#b4430b",
    series: ["#1261a8", "#c2410c", "#2f7d4f", "#7b4bb3", "#8a6d00", "#0e7c86"] },
  dark: { paper: "#181c20", ink: "#e7e9ec", quiet: "#a3abb6", line: "#30363e", accent: "#79b8ff", warm: "#ffb27a",
    series: ["#79b8ff", "#ffa26b", "#7fd1a0", "#c7a6f5", "#e3c75f", "#63d3dd"] },
};
const isDark = matchMedia("(prefers-color-scheme: dark)");
function themeName() {
  return document.documentElement.dataset.theme ?? (isDark.matches ? "dark" : "light");
}

/** Black or white, whichever can be read on a colour. */
function inkOn(colour) {
  const linear = (part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const { r, g, b } = d3.rgb(colour);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) > 0.179 ? "#000000" : "#ffffff";
}

// The switch: as the system has it, light, dark.
const redraws = [];
function redrawAll() { for (const redraw of redraws) redraw(); }
const theme = document.getElementById("theme");
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const next = { undefined: "light", light: "dark", dark: undefined }[root.dataset.theme];
  if (next) root.dataset.theme = next; else delete root.dataset.theme;
  const icon = { undefined: "◐", light: "○", dark: "●" }[next];
  theme.replaceChildren(icon, make("span", {}, ` ${next ?? "system"}`));
  theme.setAttribute("aria-label", `Colours: ${next ?? "as the system has them"}`);
  redrawAll();
});
isDark.addEventListener("change", redrawAll);
document.getElementById("print").addEventListener("click", () => window.print());
let isPrinting = false;
addEventListener("beforeprint", () => { isPrinting = true; redrawAll(); });
addEventListener("afterprint", () => { isPrinting = false; redrawAll(); });
const themeNow = () => THEMES[isPrinting ? "light" : themeName()];

/** Hands an SVG to the reader as a file of its own: fixed colours, a font that is everywhere, a white ground. */
function saveSvg(svg, name) {
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  svg.setAttribute("font-family", "Helvetica, Arial, 'Noto Sans CJK SC', 'Microsoft YaHei', 'PingFang SC', sans-serif");
  svg.style.removeProperty("font-family");
  svg.setAttribute("color", THEMES.light.ink);
  svg.querySelectorAll("style").forEach((style) => style.remove());
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [key, value] of Object.entries({ width: "100%", height: "100%", fill: "#ffffff" })) ground.setAttribute(key, value);
  svg.prepend(ground);
  const url = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }));
  make("a", { href: url, download: `${name}.svg` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function fillSelect(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => make("option", { value: key, selected: String(key) === String(value) }, clip(text, 70))));
}
