// Elements, and questions to the server.
import { say } from "./words.js";

export const at = (id) => document.getElementById(id);

/** An element with attributes and children; texts are text, never markup. */
export function make(tag, attributes = {}, ...children) {
  const part = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) part.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) part.setAttribute(name, value === true ? "" : value);
  }
  part.append(...children.filter((child) => child !== null));
  return part;
}
export const number = (value, digits = 3) => (Number.isFinite(value) ? value.toFixed(digits).replace("-", "−") : "");

let key = "";
export function enter(typed) { key = typed; }

/** The answer of the server to plain data, or to the bytes of a file; throws an Error with its message. A 429 is asked
 * again after the time that it says. */
export async function ask(path, body, signal) {
  const isFile = body instanceof Blob;
  const headers = { ...(body ? { "Content-Type": isFile ? "application/octet-stream" : "application/json" } : {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let reply;
  try {
    reply = await fetch(path, { method: body ? "POST" : "GET", headers, body: isFile ? body : body && JSON.stringify(body), signal, credentials: "omit" });
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error(say("unreachable"));
  }
  if (reply.status === 429) {
    await new Promise((resolve) => { setTimeout(resolve, 1000 * (Number(reply.headers.get("Retry-After")) || 1)); });
    signal?.throwIfAborted();
    return ask(path, body, signal);
  }
  if (reply.status === 401) {
    at("key-form").hidden = false;
    at("key").focus();
    throw new Error(say("badKey"));
  }
  const answer = await reply.json().catch(() => null);
  if (!reply.ok) throw Object.assign(new Error(answer?.error?.message ?? `HTTP ${reply.status}`), { status: reply.status });
  return answer;
}

/** A function that does its work a moment after the last call, and gives up what an earlier call has begun. */
export function later(milliseconds, work) {
  let timer, controller;
  return () => {
    clearTimeout(timer);
    controller?.abort();
    timer = setTimeout(() => {
      controller = new AbortController();
      work(controller.signal).catch((error) => { if (error.name !== "AbortError") complain(error); });
    }, milliseconds);
  };
}
export function complain(error) {
  at("problem").textContent = error ? error.message : "";
  at("problem").hidden = !error;
}
