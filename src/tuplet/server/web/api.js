// Requests to the server this page came from, wherever it is put: all addresses are relative.

import { askForKey, key } from "./key.js";

export class Problem extends Error {
  constructor(body, status) {
    super(body.error || `the server answered ${status}`);
    this.body = { ...body, error: this.message };
    this.status = status;
  }
}

async function send(path, options = {}) {
  const used = key();
  const headers = { ...options.headers, ...(used ? { Authorization: `Bearer ${used}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ error: "the server cannot be reached" }, 0);
  }
  if (response.status === 401) {
    if (await askForKey(used)) return send(path, options);
    throw new Problem({ error: "this server needs a key; “Key” at the top takes one" }, 401);
  }
  if (!response.ok) {
    const body = await response.json().catch(() => ({}));
    throw new Problem(body, response.status);
  }
  return response;
}

export async function get(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== ""));
  return (await send(`${path}?${query}`)).json();
}

export function post(path, body, signal) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
  return send(path, options);
}

export async function postJson(path, body, signal) {
  return (await post(path, body, signal)).json();
}
