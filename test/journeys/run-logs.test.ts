import { describe, expect, it, onTestFinished } from 'vitest';
import { z } from 'zod';
import { USUAL } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import path from 'node:path';
import { MAIN } from '../support/command.ts';
import { freePort, servingStage, type ServingStage, until } from '../support/serving.ts';

const line = z.looseObject({ msg: z.string(), run_id: z.string().optional(), resource: z.string().optional() });

it('every line of a run names it and its resource, those of its requests and retries too; an error has one form', async () => {
  let [asked, down] = [0, 1];
  const stage = await ownService(USUAL, {}, () => {
    asked += 1;
    const body = { data: [{ id: `${asked}` }], next_cursor: asked > 2 ? null : 'more' };
    return asked % 2 === down ? { status: 503, headers: { 'x-request-id': 'req-8' } } : { body };
  });
  const { code, stderr } = await stage.command('backfill', '--log-level', 'debug');
  expect(code).toBe(0);
  const lines = stderr
    .trim()
    .split('\n')
    .map((text) => line.parse(JSON.parse(text)));
  const runs = await stage.column('SELECT run_id FROM _sync_runs');
  expect(new Set(lines.map(({ run_id, resource }) => `${run_id} ${resource}`))).toEqual(
    new Set([`${String(runs[0])} report`]),
  );
  expect(lines.filter(({ msg }) => msg === 'request').length).toBe(asked);
  const retry = lines.find(({ msg }) => msg.startsWith('retry'));
  expect(retry).toMatchObject({
    retry: 1,
    of: 5,
    reason: 'answered 503',
    request_id: 'req-8',
    code: 'service_error',
  });
  expect(retry?.msg).toMatch(/^retry 1 of 5 in 0\.\d s: answered 503$/);

  down = -1;
  stage.setSource({ base_url: 'http://127.0.0.1:9' });
  stage.setReport({}, { http: { attempts: 2 } });
  const failed = await stage.command('sync', '--json', '--log-level', 'info');
  expect(failed.code).toBe(1);
  const said = failed.stderr
    .trim()
    .split('\n')
    .map((text) => line.parse(JSON.parse(text)));
  expect(said.map(({ msg }) => msg)).toEqual(
    expect.arrayContaining([expect.stringMatching(/^retry 1 of 1 in 0\.\d s: ECONNREFUSED$/), 'scan failed']),
  );
  const error = { code: 'unreachable', message: expect.any(String), hint: expect.any(String) };
  expect(said.at(-1)).toMatchObject({ msg: 'scan failed', error });
  expect(JSON.parse(failed.stdout).resources[0].error).toEqual(said.at(-1)?.['error']);

  const refused = await stage.command('sync', 'nothing', '--json');
  expect(refused).toMatchObject({ code: 2, stdout: '' });
  expect(JSON.parse(refused.stderr)).toMatchObject({ level: 'error', error: { code: 'usage', hint: 'it has report' } });
});

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

  it('keeps no serve from its pages, nor from stopping when it is told to', async () => {
    const stage = await servingStage({ sandbox: FEW });
    const port = await freePort();
    const args = ['serve', '--port', String(port), '--log-level', 'trace'];
    const { child, ended } = start(stage, args, ['pipe', fullPipe(stage.folder)]);
    const metrics = async (): Promise<string> => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    await until('answering', async () => (await metrics()).includes('content_sync_build_info'));
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
