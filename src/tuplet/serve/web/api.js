// Requests to the server this page came from; a key is asked for once, when the server wants one.

export class Problem extends Error {
  constructor(body, status) {
    super(body.error || `the server answered ${status}`);
    this.body = body;
    this.status = status;
  }
}

const dialog = () => document.getElementById("key-dialog");

async function askForKey() {
  const field = document.getElementById("key");
  field.value = "";
  dialog().showModal();
  await new Promise((resolve) => dialog().addEventListener("close", resolve, { once: true }));
  if (!field.value) throw new Problem({ error: "this server needs an API key" }, 401);
  sessionStorage.setItem("tuplet-key", field.value.trim());
}

let asking = null; // one dialog for all requests that wait for a key

async function send(path, options = {}) {
  const key = sessionStorage.getItem("tuplet-key");
  const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ error: "the server cannot be reached" }, 0);
  }
  if (response.status === 401) {
    asking ??= askForKey().finally(() => { asking = null; });
    await asking;
    return send(path, options);
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
