import { onTestFinished } from 'vitest';
import type { Pagination } from './service/pages/listing-page.ts';
import type { Sandbox, SandboxOptions } from './service/sandbox.ts';
import { startSandbox } from './service/sandbox.ts';

/** A sandbox that ends with the test. */
export async function sandboxFor(options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await startSandbox(options);
  onTestFinished(() => sandbox.close());
  return sandbox;
}

/** One request with the API key; `json` becomes a JSON body. */
export function ask(sandbox: Sandbox, path: string, init: RequestInit & { json?: unknown } = {}): Promise<Response> {
  const { json, headers, ...rest } = init;
  const body = json === undefined ? {} : { body: JSON.stringify(json) };
  const type = json === undefined ? {} : { 'content-type': 'application/json' };
  const authorization = `Bearer ${sandbox.apiKey}`;
  const all = new Headers({ authorization, ...type });
  for (const [name, value] of new Headers(headers)) all.set(name, value);
  return fetch(new URL(path, sandbox.url), { ...rest, ...body, headers: all, redirect: 'manual' });
}

/** The JSON body of an answer, of the type that the test expects. */
export async function bodyOf<T>(answer: Response): Promise<T> {
  const body: T = JSON.parse(await answer.text());
  return body;
}

/** The texts of all pages of a listing, walked as its style wants it. */
export async function walk(sandbox: Sandbox, style: Pagination, path: string, limit: number): Promise<string[]> {
  const pages: string[] = [];
  for (let next: string | null = `${path}${path.includes('?') ? '&' : '?'}limit=${limit}`; next !== null;) {
    const answer: Response = await ask(sandbox, next);
    const text = await answer.text();
    pages.push(text);
    next = NEXT[style](new URL(next, sandbox.url), answer, JSON.parse(text), limit);
  }
  return pages;
}

interface Body {
  data: unknown[];
  next_cursor?: string | null;
  next?: string | null;
}

const NEXT: Readonly<Record<Pagination, (asked: URL, answer: Response, body: Body, limit: number) => string | null>> = {
  cursor: (asked, _answer, body) => (body.next_cursor ? changed(asked, 'cursor', body.next_cursor) : null),
  page: (asked, _answer, body, limit) => (body.data.length < limit ? null : counted(asked, 'page', 1, 1)),
  offset: (asked, _answer, body, limit) => (body.data.length < limit ? null : counted(asked, 'offset', limit, 0)),
  link: (_asked, answer) => /<([^>]*)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1] ?? null,
  'next-url': (_asked, _answer, body) => body.next ?? null,
};

function changed(asked: URL, name: string, value: string): string {
  const url = new URL(asked);
  url.searchParams.set(name, value);
  return url.href;
}

function counted(asked: URL, name: string, step: number, first: number): string {
  return changed(asked, name, String(Number(asked.searchParams.get(name) ?? first) + step));
}
