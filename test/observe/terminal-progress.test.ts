import { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import {
  advanceResource,
  endResource,
  type ProgressSnapshot,
  type ResourceProgress,
  startResource,
  waitingResource,
} from '../../src/observe/progress.ts';
import { createTerminalProgress, progressLines } from '../../src/observe/terminal-progress.ts';

const ESC = '\u001b';

function running(resource: string, pages: number, total: number | null): ResourceProgress {
  let progress = startResource(waitingResource(resource), 0, { records: 0, pages: 0, requests: 0, total });
  for (let page = 1; page <= pages; page++) {
    progress = advanceResource(progress, page * 100, { records: page * 100, pages: page, requests: page, total });
  }
  return progress;
}

const snapshot: ProgressSnapshot = {
  at: 15_000,
  resources: [
    running('content', 150, 30_000),
    waitingResource('images'),
    endResource(running('analytics', 30, null), 3_000, 'ok'),
  ],
  rateLimiter: { requests: 180, limited: 1, allowedPerSecond: 20, pausedForMs: 12_000 },
};

describe('the lines', () => {
  it('at 80 columns', () => {
    expect(progressLines(snapshot, 80)).toEqual([
      'content    15,000/30,000  50%  1,000/s  10.0 req/s  limit 50%  ETA 15s',
      'images     waiting',
      'analytics  3,000  1,000/s  10.0 req/s  limit 50%  ok 3s',
      '180 requests  1 limited  limit 20.0/s  paused for 12s',
    ]);
  });

  it.each([1, 5, 20, 40, 60, 79, 80, 200])('are never wider than %d columns', (width) => {
    for (const line of progressLines(snapshot, width)) expect(line.length).toBeLessThanOrEqual(width);
  });

  it('omit unknown values', () => {
    const rateLimiter = { requests: 0, limited: 0, allowedPerSecond: null, pausedForMs: 0 };
    expect(progressLines({ at: 0, resources: [waitingResource('content')], rateLimiter }, 80)).toEqual([
      'content  waiting',
      '0 requests  0 limited',
    ]);
  });
});

/** A stream that records what was written, with the properties of a terminal. */
function recorder(terminal: { isTTY?: boolean; columns?: number; rows?: number }) {
  const chunks: string[] = [];
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string, _, done) {
      chunks.push(chunk);
      done();
    },
  });
  return { stream: Object.assign(stream, terminal), chunks };
}

/** What a terminal shows after the text: understands the sequences that are used, and no others. */
function screen(chunks: readonly string[]): string[] {
  const lines: string[] = [''];
  let row = 0;
  for (const [token] of chunks
    .join('')
    .replaceAll(ESC, '␛')
    .matchAll(/␛\[\d*[A-Za-z]|\n|\r|[^␛\n\r]+/g)) {
    if (token.endsWith('A') && token.startsWith('␛')) row -= Number.parseInt(token.slice(2), 10);
    else if (token === '\n') lines[++row] ??= '';
    else if (token === '␛[K') lines[row] = lines[row]?.trimEnd() ?? '';
    else if (token === '␛[J') lines.splice(row, lines.length, '');
    else if (!token.startsWith('␛') && token !== '\r') lines[row] = token;
  }
  return lines;
}

function clockAt(times: number[]) {
  return { monotonic: () => times.shift() ?? Number.MAX_SAFE_INTEGER };
}

describe('live lines', () => {
  it('are not written without a terminal', () => {
    const { stream, chunks } = recorder({});
    const lines = createTerminalProgress({ stream, clock: clockAt([]) });
    lines.update(snapshot);
    lines.finish();
    expect(chunks).toEqual([]);
  });

  it('are drawn at most ten times a second, and the last state is not lost', () => {
    const { stream, chunks } = recorder({ isTTY: true, columns: 81 });
    let now = 0;
    const lines = createTerminalProgress({ stream, clock: { monotonic: () => now } });
    for (now = 0; now < 1_000; now += 10) lines.update(snapshot);
    expect(chunks).toHaveLength(10);
    const last = { ...snapshot, resources: [running('content', 200, 30_000)], at: 20_000 };
    lines.update(last);
    lines.finish();
    lines.finish();
    expect(screen(chunks)).toEqual([...progressLines(last, 80), '']);
  });

  it('fit into a low terminal', () => {
    const { stream, chunks } = recorder({ isTTY: true, columns: 80, rows: 3 });
    createTerminalProgress({ stream, clock: clockAt([0, 0]) }).update(snapshot);
    expect(chunks.join('').split('\n')).toHaveLength(3);
  });
});
