import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { deliveriesCommand } from '../../src/cli/deliveries.ts';
import { inboxAddress, openInbox } from '../../src/database/databases.ts';
import { timestampText } from '../../src/model/timestamp-text.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { draining, eventFor } from '../support/draining.ts';
import { hurriedClock } from '../support/hurried-clock.ts';
import { journey, type Journey } from '../support/journey.ts';
import { runInProcess } from './in-process.ts';

const SECRET = `whsec_${Buffer.from('a secret that is long enough').toString('base64')}`;
const HEADERS = { 'x-topic': 'content/\u001b[31mupdate' };

interface Given {
  id: string;
  body: string | Buffer;
  settled?: Partial<Record<'kind' | 'resource' | 'record_id' | 'reason', string>> & {
    state: 'done' | 'ignored' | 'dead';
  };
}

/** A source with deliveries in its inbox, numbered from 1. */
async function stageWith(...given: readonly Given[]): Promise<Journey> {
  const stage = await journey({ source: { webhook: { secrets: [SECRET] } } });
  const inbox = await openInbox(inboxAddress(`sqlite:${stage.file}`), systemClock);
  const now = timestampText(Date.parse('2026-11-20T08:00:00.123Z'));
  const stored = { is_id_sent: true, received_at: now, headers: JSON.stringify(HEADERS) };
  await inbox.write(given.map(({ id, body }) => ({ ...stored, delivery_id: id, body: Buffer.from(body) })));
  const none = { kind: null, resource: null, record_id: null, reason: null, due_at: null, readEvents: null };
  await inbox.settle(
    given.flatMap(({ settled }, at) =>
      settled === undefined ? [] : [{ ...none, seq: at + 1, attempts: 8, finished_at: now, ...settled }],
    ),
  );
  await inbox.close();
  return stage;
}

const FOUND = { kind: 'content.updated', resource: 'content', record_id: 'a1' };
const THREE: Given[] = [
  { id: 'msg_1', body: '{"a":1}', settled: { state: 'done', ...FOUND } },
  { id: 'msg_2', body: Buffer.from([0xff]), settled: { state: 'dead', reason: 'no\nuse\u001b[2J' } },
  { id: '77', body: `{"token":"${SECRET}",\n"text":"\u202e\u001b[2J"}` },
];

function run(stage: Journey, ...args: string[]): Promise<{ code: number; stdout: string }> {
  return runInProcess(deliveriesCommand, [...args, '--config', stage.config], stage.folder);
}

describe('content-sync deliveries', () => {
  it('lists the newest first, on one line each, safe on a terminal', async () => {
    const { stdout, code } = await run(await stageWith(...THREE), 'list');
    const lines = stdout.trimEnd().split('\n');
    expect(code).toBe(0);
    expect(lines[0]).toBe('blog');
    expect(lines[1]).toMatch(/no\. +received \(UTC\) +state +kind +resource +record +tries +id +reason$/);
    expect(lines.slice(2).map((line) => line.trim().split(/ {2,}/))).toEqual([
      ['3', '2026-11-20 08:00:00', 'waiting', '–', '–', '–', '0', '77'],
      ['2', '2026-11-20 08:00:00', 'dead', '–', '–', '–', '8', 'msg_2', 'no\\u000ause\\u001b[2J'],
      ['1', '2026-11-20 08:00:00', 'done', 'content.updated', 'content', 'a1', '8', 'msg_1'],
    ]);
  });

  it('says of a delivery that another body came under its id first', async () => {
    const stage = await stageWith({ id: 'msg_1', body: '{"a":1}' }, { id: 'msg_1', body: '{"a":2}' });
    const [, , other = '', first = ''] = (await run(stage, 'list')).stdout.split('\n');
    expect(other).toMatch(/ msg_1#[0-9a-f]{16} +another body came under the id msg_1 first$/);
    expect(first).toMatch(/ msg_1$/);
    const [number = ''] = other.trim().split(' ', 1);
    expect((await run(stage, 'show', number)).stdout).toMatch(/\ndiffers_from +msg_1\n/);
    expect((await run(stage, 'show', 'msg_1')).stdout).toMatch(/\{"a":1\}\n$/);
  });

  it('shows one by its number or by its id, with headers and body, and no secret', async () => {
    const stage = await stageWith(...THREE);
    const { stdout } = await run(stage, 'show', 'msg_1');
    expect(stdout).toMatch(/^source +blog\n/);
    expect(stdout).toContain('headers      {"x-topic":"content/\\u001b[31mupdate"}\n');
    expect(stdout).toMatch(/body +7 bytes\n\n\{"a":1\}\n$/);
    const { stdout: nasty } = await run(stage, 'show', '3');
    expect(nasty).toMatch(/\{"token":"\*\*\*",\n"text":"\\u202e\\u001b\[2J"\}\n$/);
    expect((await run(stage, 'show', '77')).stdout).toBe(nasty);
    expect((await run(stage, 'show', '2')).stdout).toMatch(/1 bytes, no text; as base64:\n\n\/w==\n$/);
  });

  it('replays those that are named, or all that are dead, and a running drain takes them', async () => {
    const body = JSON.stringify(eventFor('content', 'a'));
    const stage = await stageWith(
      { id: 'msg_1', body, settled: { state: 'done' } },
      { id: 'msg_2', body, settled: { state: 'dead' } },
      { id: 'msg_3', body, settled: { state: 'dead' } },
    );
    const running = await draining(stage, { refetch: async () => 'unchanged', clock: hurriedClock(20) });
    expect((await run(stage, 'replay', 'msg_1', '2')).stdout).toMatch(/^blog: 2 waiting again; .*within seconds/);
    await running.settled();
    const states = async (): Promise<string[]> => (await running.rows()).map(({ state }) => state);
    expect(await states()).toEqual(['dead', 'done', 'done']);
    expect(JSON.parse((await run(stage, 'replay', '--dead', '--json')).stdout)).toEqual({
      source: 'blog',
      replayed: 1,
    });
    await running.settled();
    expect(await states()).toEqual(['done', 'done', 'done']);
    expect((await run(stage, 'replay', '--dead')).stdout).toBe('blog: nothing to replay\n');
  });

  it.each([
    ['a delivery that is not there', ['show', '99'], 'there is no delivery 99'],
    ['to replay what is not there', ['replay', '1', 'nope', '98'], 'there is no delivery nope, 98'],
    ['to replay nothing', ['replay'], 'either deliveries or --dead'],
    ['to replay both', ['replay', '1', '--dead'], 'either deliveries or --dead'],
    ['a limit that is none', ['list', '--limit', '0'], '--limit must be a whole number'],
    ['a source that is not there', ['list', '--source', 'shop'], 'no source "shop"'],
  ])('refuses %s', async (_, args, message) => {
    const stage = await stageWith(...THREE);
    await expect(run(stage, ...args)).rejects.toThrow(message);
  });

  it('passes over a source that receives no webhooks, unless it is named', async () => {
    const stage = await stageWith();
    const config = JSON.parse(readFileSync(stage.config, 'utf8'));
    delete config.sources.blog.webhook;
    writeFileSync(stage.config, JSON.stringify(config));
    expect(await run(stage, 'list')).toMatchObject({ code: 0, stdout: '' });
    await expect(run(stage, 'list', '--source', 'blog')).rejects.toThrow('receives no webhooks');
  });
});
