// JSON and text responses of the HTTP endpoints.
export function jsonResponse(status: number, value: object, indent = 2): Response {
  const headers = { 'content-type': 'application/json; charset=utf-8' };
  return new Response(`${JSON.stringify(value, null, indent)}\n`, { status, headers });
}

export function textResponse(status: number, sentence: string, headers: Record<string, string> = {}): Response {
  return new Response(`${sentence}\n`, {
    status,
    headers: { 'content-type': 'text/plain; charset=utf-8', ...headers },
  });
}
