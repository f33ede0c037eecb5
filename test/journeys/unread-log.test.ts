import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { MAIN } from '../support/command.ts';
import { freePort, servingStage, until, type ServingStage } from '../support/serving.ts';

const FEW = { generate: { content: 90, images: 1, analytics: 1 } };

/** The writing end of a pipe that somebody holds and nobody reads, filled to its last byte. */
function fullPipe(folder: string): number {
  const file = path.join(folder, 'pipe');
  execFileSync('mkfifo', [file]);
  const reader = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  const writer = openSync(file, constants.O_WRONLY | constants.O_NONBLOCK);
  const page = Buffer.alloc(4_096);
  try {
    for (;;) writeSync(writer, page);
  } catch {
    // It takes no more.
  }
  onTestFinished(() => [reader, writer].forEach((fd) => closeSync(fd)));
  return writer;
}

/** A pipe whose reader is gone. */
function brokenPipe(folder: string): number {
  const file = path.join(folder, 'broken');
  execFileSync('mkfifo', [file]);
  const reader = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  const writer = openSync(file, constants.O_WRONLY);
  closeSync(reader);
  onTestFinished(() => closeSync(writer));
  return writer;
}

type Target = 'pipe' | number;

function start({ folder }: ServingStage, args: readonly string[], [stdout, stderr]: readonly [Target, Target]) {
  const config = ['--config', path.join(folder, 'content-sync.yaml')];
  const child = spawn(process.execPath, [MAIN, ...args, ...config], { cwd: folder, stdio: ['ignore', stdout, stderr] });
  let said = '';
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => (said += chunk));
  onTestFinished(() => void child.kill('SIGKILL'));
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, said }));
  return { child, ended };
}

describe('a log that nobody reads', { timeout: 120_000 }, () => {
  it('changes neither the answer of a command nor how it ends', async () => {
    const stage = await servingStage({ sandbox: FEW });
    const run = start(stage, ['backfill', '--json', '--log-level', 'trace'], ['pipe', fullPipe(stage.folder)]);
    const { code, said } = await run.ended;
    expect({ code, report: JSON.parse(said) }).toMatchObject({ code: 0, report: { status: 'ok' } });
  });

  it('changes nothing about a command that fails', async () => {
    const stage = await servingStage({ sandbox: FEW });
    const run = start(stage, ['sync', 'nothing-of-this-name'], ['pipe', fullPipe(stage.folder)]);
    expect(await run.ended).toMatchObject({ code: 2, signal: null });
  });

  it('keeps no serve from its pages, nor from stopping when it is told to', async () => {
    const stage = await servingStage({ sandbox: FEW });
    const port = await freePort();
    const args = ['serve', '--port', String(port), '--log-level', 'trace'];
    const { child, ended } = start(stage, args, ['pipe', fullPipe(stage.folder)]);
    const metrics = async (): Promise<string> => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    await until('answering', async () => (await metrics()).includes('content_sync_log_lines_lost_total 0'));
    child.kill('SIGTERM');
    expect(await ended).toMatchObject({ code: 0, signal: null });
  });

  it('is as good as one whose reader is gone, and so is an answer', async () => {
    const stage = await servingStage({ sandbox: FEW, source: { auth: { type: 'api_key', key: 'nobody-s' } } });
    const broken = brokenPipe(stage.folder);
    const run = start(stage, ['sync', '--json', '--log-level', 'trace'], [broken, broken]);
    expect(await run.ended).toMatchObject({ code: 1, signal: null });
  });
});
