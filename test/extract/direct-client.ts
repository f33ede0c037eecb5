import { request } from 'undici';
import type { ApiAnswer, ApiClient, RequestMeter } from '../../src/http/client.ts';
import { SyncError } from '../../src/model/errors.ts';
import { parseJson } from '../../src/shape/parse-json.ts';

const CODES: Readonly<Record<number, string>> = {
  400: 'bad_request',
  404: 'not_found',
  410: 'gone',
  500: 'service_error',
};

export function newMeter(): RequestMeter {
  return { requests: 0, retries: 0, limited: 0, bytes: 0 };
}

/** A client over real HTTP that asks once and judges by the status alone. 204 stands for the outcome `skip`. */
export function directClient(): ApiClient {
  return { get: askOnce, close: async () => {} };
}

async function askOnce({ url, meter, signal }: Parameters<ApiClient['get']>[0]): Promise<ApiAnswer> {
  meter.requests += 1;
  const requestedAt = Date.now();
  const sentAt = performance.now();
  const { statusCode: status, headers, body } = await request(url, signal === undefined ? {} : { signal });
  const text = await body.text();
  const code = CODES[status];
  if (code !== undefined) throw new SyncError(code, `The service answered ${status}`, { recovery: 'stop' });
  return {
    outcome: status === 204 ? 'skip' : 'ok',
    url,
    status,
    headers,
    text,
    json: text === '' ? null : parseJson(text),
    requestedAt,
    latencyMs: performance.now() - sentAt,
    serverDate: Date.parse(String(headers['date'])),
  };
}
