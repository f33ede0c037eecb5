import { describe, expect, it } from 'vitest';
import type { Logger } from 'pino';
import { z } from 'zod';
import { createLog } from '../../src/observe/log.ts';

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

  it('drops lines while nobody reads them', () => {
    const waiting: string[] = [];
    const sink = { writableLength: 0, write: (text: string) => void waiting.push(text) };
    const log = createLog({ level: 'info', secrets: [], destination: sink });
    log.info('read');
    sink.writableLength = 8_000_000;
    for (const word of ['one', 'two', 'three']) log.info(word);
    sink.writableLength = 0;
    log.info('read again');
    const lines = waiting.join('').split('\n').slice(0, -1);
    expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([{ msg: 'read' }, { msg: 'read again' }]);
  });

  it('continues after a line that cannot be written', () => {
    const full = {
      write: () => {
        throw new Error('ENOSPC');
      },
    };
    const log = createLog({ level: 'info', secrets: [], destination: full });
    expect(() => log.info('x')).not.toThrow();
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
    ['a field far down', (log) => log.info({ a: { b: { c: { d: SECRET } } } })],
    ['the name of a field', (log) => log.info({ [SECRET]: 1 })],
    ['a header, whatever its case', (log) => log.info({ headers: { AUTHORIZATION: `Bearer ${SECRET}` } })],
    ['basic authentication', (log) => log.info({ headers: { authorization: `Basic ${basic}` } })],
    ['the message and stack of an error', (log) => log.error(error())],
    ['the cause of an error', (log) => log.error(new Error('outer', { cause: error() }))],
    ['a property of an error', (log) => log.error(Object.assign(new Error('x'), { request: { key: SECRET } }))],
    ['an error under another name', (log) => log.error({ error: error(), err: error(), e: error() })],
    ['the errors of an aggregate', (log) => log.error(new AggregateError([error(), error()]))],
    ['what a child log carries', (log) => log.child({ key: SECRET }).info('x')],
    ['a buffer', (log) => log.info({ bytes: Buffer.from(SECRET) })],
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
