"use strict";
// What all parts of a page share: its data, colours, and how an element is made. Texts are never markup: they are
// only ever set as text, and the page's policy refuses everything else.
const DATA = JSON.parse(document.getElementById("data").textContent);

for (const element of document.querySelectorAll("[data-scripted]")) element.hidden = false;

// The language: as it was chosen, else as the browser has it. Texts are written in English, and WORDS has the same in
// Chinese. Names, numbers and sentences of data sets stay as they are.
const WORDS = Object.assign(Object.create(null), DATA.words);
const CHOSEN = "juzhen-language";
function chosenLanguage() {
  try { return localStorage.getItem(CHOSEN) ?? navigator.language; } catch { return navigator.language; }  // a frame may have no storage
}
let isChinese = chosenLanguage().startsWith("zh");
/** A text in the language that is shown: say`of ${number} rows`, or say(text) of a text of the data. */
function say(text, ...parts) {
  if (typeof text === "string") return (isChinese && WORDS[text]) || text;
  const english = text.join("{}"), places = isChinese && WORDS[english];
  return places ? places.replace(/\{(\d)\}/g, (_, place) => parts[place]) : text.reduce((said, rest, place) => said + parts[place - 1] + rest);
}
const turns = [];
/** Calls a function now, and whenever the language changes. */
function inEachLanguage(turn) { turns.push(turn); turn(); }

// What the page comes with: every text and label that has a pair, but for names.
const written = [];
for (const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walker.nextNode();) {
  const node = walker.currentNode, [, before, text, after] = node.nodeValue.match(/^(\s*)(.*?)(\s*)$/s);
  if (text in WORDS && node.parentElement.translate) written.push([text, (said) => { node.nodeValue = before + said + after; }]);
}
for (const name of ["title", "aria-label", "placeholder"]) {
  for (const element of document.querySelectorAll(`[${name}]`)) {
    const text = element.getAttribute(name);
    if (text in WORDS) written.push([text, (said) => element.setAttribute(name, said)]);
  }
}
const language = document.getElementById("language");
inEachLanguage(() => {
  document.documentElement.lang = isChinese ? "zh-Hans" : "en";
  language.textContent = say`中文`;
  language.lang = isChinese ? "en" : "zh-Hans";
  for (const [text, write] of written) write(say(text));
});
language.addEventListener("click", () => {
  isChinese = !isChinese;
  try { localStorage.setItem(CHOSEN, isChinese ? "zh" : "en"); } catch { /* it is shown, and not remembered */ }
  for (const turn of turns) turn();
  redrawAll();
});

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
  const isHan = /\p{Script=Han}/u.test(text);
  return make(tag, isHan === isChinese ? {} : { lang: isHan ? "zh-Hans" : "en" }, text);
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
function showTheme() {
  const now = document.documentElement.dataset.theme;
  const [icon, name, label] = { undefined: ["◐", say`system`, say`Colours: as the system has them`], light: ["○", say`light`, say`Colours: light`], dark: ["●", say`dark`, say`Colours: dark`] }[now];
  theme.replaceChildren(icon, make("span", {}, ` ${name}`));
  theme.setAttribute("aria-label", label);
}
inEachLanguage(showTheme);
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const next = { undefined: "light", light: "dark", dark: undefined }[root.dataset.theme];
  if (next) root.dataset.theme = next; else delete root.dataset.theme;
  showTheme();
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
