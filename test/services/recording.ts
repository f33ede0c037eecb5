import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { serveUntilEnd } from '../faults/port-of.ts';
import type { TrueRecord } from './service-stage.ts';

/** One request of a run and what the real service answered. */
interface Exchange {
  /** Method, path and query, without the credential. */
  request: string;
  /** Local epoch milliseconds when it was asked. */
  at: number;
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** A run of content-sync against a real service, through a server that noted down what passed; and what the service held at its end, by resource. */
export interface RecordedRun {
  command: 'backfill' | 'sync';
  exchanges: Exchange[];
  truth: Record<string, TrueRecord[]>;
}

interface Recording {
  /** Version of the service. */
  service: string;
  profile: string;
  resources: Record<string, unknown>;
  /** Settings under `auth`, with false secrets of the same form. */
  auth: Record<string, unknown>;
  runs: RecordedRun[];
}

export function readRecording(name: string): Recording {
  const file = path.join(import.meta.dirname, 'recorded', `${name}.json.gz`);
  return JSON.parse(gunzipSync(readFileSync(file)).toString('utf8'));
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
