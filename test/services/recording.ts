import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import path from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { request } from 'undici';
import { serveUntilEnd } from '../faults/port-of.ts';
import type { TrueRecord } from './live-service.ts';

/** One request of a run and what the real service answered. */
export interface Exchange {
  /** Method, path and query, without the credential. */
  request: string;
  /** Local epoch milliseconds when it was asked. */
  at: number;
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** A run of content-sync against a real service, and what the service held at its end, by resource. */
export interface RecordedRun {
  command: 'backfill' | 'sync';
  exchanges: Exchange[];
  truth: Record<string, TrueRecord[]>;
}

export interface Recording {
  /** Version of the service. */
  service: string;
  profile: string;
  resources: Record<string, unknown>;
  /** Settings under `auth`, with false secrets of the same form. */
  auth: Record<string, unknown>;
  runs: RecordedRun[];
}

const fileOf = (name: string): string => path.join(import.meta.dirname, 'recorded', `${name}.json.gz`);

export function readRecording(name: string): Recording {
  return JSON.parse(gunzipSync(readFileSync(fileOf(name))).toString('utf8'));
}

export function writeRecording(name: string, recording: Recording): void {
  writeFileSync(fileOf(name), gzipSync(JSON.stringify(recording), { level: 9 }));
}

/** Headers of a connection, not of an answer; and those whose values are the machine's. */
const NOT_KEPT =
  /^(connection|keep-alive|transfer-encoding|content-length|content-encoding|set-cookie|.*-policy|vary|etag)$/;

const OF_THE_CONNECTION: ReadonlySet<string> = new Set(['host', 'connection', 'accept-encoding']);

/** A server in front of a real one that notes down what goes through it. */
export async function startRecorder(
  target: string,
  secrets: readonly string[],
): Promise<{ url: string; exchanges: Exchange[] }> {
  const exchanges: Exchange[] = [];
  const server = createServer(async (incoming, outgoing) => {
    const at = Date.now();
    const sent = Object.entries(incoming.headers).filter(([name]) => !OF_THE_CONNECTION.has(name));
    const answer = await request(target + String(incoming.url), {
      headers: Object.fromEntries(sent.map(([name, value]): [string, string] => [name, String(value)])),
    });
    const body = await answer.body.text();
    const kept = Object.fromEntries(
      Object.entries(answer.headers).flatMap(([name, value]): [string, string][] =>
        NOT_KEPT.test(name) || value === undefined ? [] : [[name, String(value)]],
      ),
    );
    exchanges.push({ request: requestOf(incoming, secrets), at, status: answer.statusCode, headers: kept, body });
    outgoing.writeHead(answer.statusCode, kept).end(body);
  });
  return { url: await serveUntilEnd(server), exchanges };
}

/** A server that answers as the recording has it; a request that is not in it is a 500, and counted as unknown. */
export async function startReplay(secrets: readonly string[]) {
  const state = { known: new Map<string, Exchange[]>(), at: 0, unknown: [] as string[] };
  const server = createServer((incoming, outgoing) => {
    const asked = requestOf(incoming, secrets);
    const answers = state.known.get(asked) ?? [];
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer === undefined) {
      state.unknown.push(asked);
      outgoing.writeHead(500).end();
      return;
    }
    state.at = Math.max(state.at, answer.at);
    outgoing.writeHead(answer.status, answer.headers).end(answer.body);
  });
  return {
    url: await serveUntilEnd(server),
    unknown: state.unknown,
    /** From here on it answers as in that run. */
    play({ exchanges }: RecordedRun): void {
      state.known = Map.groupBy(exchanges, ({ request }) => request);
      state.at = Math.max(state.at, exchanges[0]?.at ?? 0);
    },
    now: () => state.at,
  };
}

function requestOf({ method = 'GET', url = '/' }: IncomingMessage, secrets: readonly string[]): string {
  return secrets.reduce((text, secret) => text.replaceAll(secret, '***'), `${method} ${decodeURIComponent(url)}`);
}
