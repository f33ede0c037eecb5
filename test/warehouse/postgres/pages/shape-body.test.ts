import { describe, expect, it } from 'vitest';
import { canonicalHash, textHash } from '../../../../src/shape/records/fingerprint.ts';
import { shapeRecords } from '../../../../src/shape/shape-page.ts';
import { CopyMemory } from '../../../../src/warehouse/postgres/connection/copy-data.ts';
import { encodePage } from '../../../../src/warehouse/postgres/pages/encode-page.ts';
import { shapeBody } from '../../../../src/warehouse/postgres/pages/shape-body.ts';
import { bodyOf, messagesOf, planOf, recordText, writtenOf } from './shaping.ts';

const texts = Array.from({ length: 300 }, (_, at) => recordText(at));

describe('shapeBody', () => {
  it.each(['all', 'none'] as const)('makes of a body what a page of its records is, with history: %s', (history) => {
    const [plan, body] = [planOf(history), bodyOf(texts)];
    const made = shapeBody(new CopyMemory(), plan, body);
    const records = writtenOf(body, ({ value, bytes }) =>
      history === 'none' ? canonicalHash(value) : textHash(bytes),
    );
    const { rows } = shapeRecords({ shape: plan.shape, profile: plan.profile, records });
    const page = { resource: 'content', history, requestedAt: body.requestedAt, rows, children: [], records };
    const whole = encodePage(new CopyMemory(), page, { mayBeThere: () => false, asText: false });
    expect(made && messagesOf(made.encoded)).toEqual(messagesOf(whole));
    expect(made?.shaped).toMatchObject({ years: [2026, 2026], overflowed: 0, discarded: 0, repaired: 0 });
    expect(made?.shaped.records).toEqual(
      records.map(({ key: id, hash }) => ({ id, hash, updated: '2026-11-20T10:00:00Z' })),
    );
  });

  it.each([
    ['without a key', '{"n":1}'],
    ['with an empty key', '{"id":"","n":1}'],
    ['whose key has more digits than a number keeps', '{"id":9007199254740993,"n":1}'],
    ['whose time of change is no text', '{"id":"x","updated_at":{"at":1}}'],
    ['with a field that has no column', '{"id":"x","new":1}'],
    ['with a value that its column does not take', '{"id":"x","n":"many"}'],
    ['that is too deep', `{"id":"x","n":${'['.repeat(120)}${']'.repeat(120)}}`],
    ['that is no object', '"id"'],
  ])('leaves a body alone that has a record %s', (_, text) => {
    const body = { ...bodyOf([...texts.slice(0, 200), text, recordText(1)]), isPlain: false };
    expect(shapeBody(new CopyMemory(), planOf(), body)).toBeNull();
  });

  it('throws for what cannot be read: it was cut in a wrong place', () => {
    const body = bodyOf(texts);
    const borders = body.borders.with(1, (body.borders[1] ?? 0) - 1);
    expect(() => shapeBody(new CopyMemory(), planOf(), { ...body, borders })).toThrow(SyntaxError);
  });
});
