import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { json } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import type { Logger } from 'pino';
import { z } from 'zod';
import { createLog, lostLines } from '../../src/observe/log.ts';

const SECRET = 'Canary-4711/Secret"Value';

/** What a log wrote, line by line. */
function written(
  use: (log: Logger) => void,
  secrets: string[] = [SECRET],
  level: 'trace' | 'info' = 'trace',
): string[] {
  let text = '';
  use(createLog({ level, secrets, destination: { write: (line) => void (text += line) } }));
  return text.split('\n').slice(0, -1);
}

describe('the log', () => {
  it('writes one JSON object per line, with the level by name and the time in ISO 8601', () => {
    const [line = ''] = written((log) => log.info({ resource: 'content', records: 7 }, 'page stored'));
    const { time, ...rest } = z.looseObject({ time: z.string() }).parse(JSON.parse(line));
    expect(rest).toEqual({ level: 'info', resource: 'content', records: 7, msg: 'page stored' });
    expect(new Date(time).toISOString()).toBe(time);
  });

  it('writes what the level lets through', () => {
    const lines = written(
      (log) => (['debug', 'info', 'error'] as const).forEach((level) => log[level]('x')),
      [],
      'info',
    );
    expect(lines.map((line) => z.looseObject({ level: z.string() }).parse(JSON.parse(line)).level)).toEqual([
      'info',
      'error',
    ]);
  });

  it('goes to standard error and leaves standard output alone', () => {
    const log = new URL('../../src/observe/log.ts', import.meta.url).href;
    const code = `const { createLog } = await import('${log}'); createLog({ level: 'info', secrets: [] }).info('here'); process.exit(0);`;
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' });
    expect(stdout).toBe('');
    expect(JSON.parse(stderr)).toMatchObject({ msg: 'here' });
  });

  it('leaves out lines that nobody reads, counts them, and says so to whoever reads again', () => {
    const waiting: string[] = [];
    const sink = { writableLength: 0, write: (text: string) => void waiting.push(text) };
    const log = createLog({ level: 'info', secrets: [], destination: sink });
    log.info('read');
    sink.writableLength = 8_000_000;
    for (const word of ['one', 'two', 'three']) log.info(word);
    expect(lostLines(sink)).toBe(3);
    sink.writableLength = 0;
    createLog({ level: 'info', secrets: [], destination: sink }).info('read again');
    const lines = waiting.join('').split('\n').slice(0, -1);
    expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([
      { msg: 'read' },
      { level: 'warn', lines: 3, msg: 'lines of this log were not written: nobody read them' },
      { msg: 'read again' },
    ]);
  });

  it('goes on where a line cannot be written, and counts it', () => {
    const full = {
      write: () => {
        throw new Error('ENOSPC');
      },
    };
    const log = createLog({ level: 'info', secrets: [], destination: full });
    expect(() => log.info('x')).not.toThrow();
    expect(lostLines(full)).toBe(1);
  });

  it('keeps no more than a few megabytes for a reader who does not read', async () => {
    const module = new URL('../../src/observe/log.ts', import.meta.url).href;
    const code = `
      const { createLog, lostLines } = await import('${module}');
      const log = createLog({ level: 'info', secrets: [] });
      for (let line = 0; line < 9000; line += 1) log.info('x'.repeat(1000));
      process.stdout.write(JSON.stringify([lostLines(process.stderr), process.stderr.writableLength]), () => process.exit(0));`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'pipe'] });
    const [[lost, kept]] = await Promise.all([
      json(child.stdout).then((told) => z.tuple([z.number(), z.number()]).parse(told)),
      once(child, 'exit'),
    ]);
    expect(kept).toBeLessThanOrEqual(4_194_304);
    expect(lost).toBeGreaterThan(1_000);
    child.stderr.resume();
  });

  it('F102 keeps an event on one line, and what would act on a terminal visible', () => {
    const text = 'a\r\nb\u001b[2J\u009b31m\u202e\u2028=cmd()\u0000\u007f';
    const [line = '', ...others] = written((log) => log.info({ text }, text));
    expect(others).toEqual([]);
    expect(line).toMatch(/^[\x20-\x7e]*$/);
    expect(JSON.parse(line)).toMatchObject({ text, msg: text });
  });
});

describe('T17 F211 no secret gets through any of the channels', () => {
  const error = (): Error => new Error(`refused: ${SECRET}`);
  const basic = Buffer.from(`client:${SECRET}`).toString('base64');
  const channels: [string, (log: Logger) => void][] = [
    ['the message', (log) => log.info(`key is ${SECRET}`)],
    ['an argument of the message', (log) => log.info('key is %s', SECRET)],
    ['a field at the top', (log) => log.info({ key: SECRET })],
    ['a field far down', (log) => log.info({ a: { b: { c: { d: SECRET } } } })],
    ['the name of a field', (log) => log.info({ [SECRET]: 1 })],
    ['a header, whatever its case', (log) => log.info({ headers: { AUTHORIZATION: `Bearer ${SECRET}` } })],
    ['a list of raw headers', (log) => log.info({ headers: ['authorization', `Bearer ${SECRET}`] })],
    ['basic authentication', (log) => log.info({ headers: { authorization: `Basic ${basic}` } })],
    ['the query of a URL', (log) => log.info({ url: `https://a.b/?k=${encodeURIComponent(SECRET)}` })],
    ['JSON inside a text', (log) => log.info({ body: JSON.stringify({ key: SECRET }) })],
    ['the message and stack of an error', (log) => log.error(error())],
    ['the cause of an error', (log) => log.error(new Error('outer', { cause: error() }))],
    ['a property of an error', (log) => log.error(Object.assign(new Error('x'), { request: { key: SECRET } }))],
    ['an error under another name', (log) => log.error({ error: error(), err: error(), e: error() })],
    ['the errors of an aggregate', (log) => log.error(new AggregateError([error(), error()]))],
    ['what a child log carries', (log) => log.child({ key: SECRET }).info('x')],
    ['a buffer', (log) => log.info({ bytes: Buffer.from(SECRET) })],
    ['a text in base64', (log) => log.info({ key: Buffer.from(SECRET).toString('base64') })],
  ];

  it.each(channels)('%s', (_, use) => {
    const lines = written(use);
    const all = lines.join('\n');
    expect(lines.length).toBe(1);
    expect(all).toContain('***');
    expect(() => JSON.parse(all) as unknown).not.toThrow();
    expect(all).not.toMatch(/4711/);
    expect(all).not.toContain(basic);
    expect(all).not.toContain(Buffer.from(SECRET).toString('base64').slice(0, 20));
    expect(all).not.toContain([...Buffer.from('4711')].join(','));
  });

  it('a secret of digits is also taken out of numbers, and the line stays JSON', () => {
    const [line = ''] = written(
      (log) => log.info({ n: 47_114_711, list: [47_114_711], s: 'x:47114711,y' }),
      ['47114711'],
    );
    expect(JSON.parse(line)).toMatchObject({ n: '***', list: ['***'], s: 'x:***,y' });
  });
});
