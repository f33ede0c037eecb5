import { describe, expect, it } from 'vitest';
import { signatureSchema } from '../../../src/config/profile/signature-scheme.ts';
import { deliveryMask } from '../../../src/server/receiver/mask-delivery.ts';

const SECRET = 'canary/secret+4711';
const DIGITS = '8204711930';

function masked(body: string | Buffer, preset = 'standard-webhooks', own = 'of another kind', id = 'msg_1') {
  const mask = deliveryMask([SECRET, DIGITS, 'content'], signatureSchema.parse(preset), {
    secrets: [{ value: own }],
  });
  const delivery = { is_id_sent: true, received_at: '2026-01-01 00:00:00.000', headers: `{"x-kind":"${SECRET}"}` };
  return mask({ ...delivery, delivery_id: id, body: Buffer.from(body) });
}

function bodyOf(...asked: Parameters<typeof masked>): string {
  return Buffer.from(masked(...asked).body).toString();
}

describe('F211 what is stored of a delivery', () => {
  it.each([
    ['a secret in a field', `{"a":"${SECRET}","id":1}`, '{"a":"***","id":1}'],
    ['one in the name of a field', `{"${SECRET}":1}`, '{"***":1}'],
    ['one in JSON within JSON', JSON.stringify({ a: JSON.stringify({ b: SECRET }) }), '{"a":"{\\"b\\":\\"***\\"}"}'],
    ['one of digits as a text', `{"a":"${DIGITS}"}`, '{"a":"***"}'],
    ['one of digits as a number, which stays one', `{"a":${DIGITS},"b":1${DIGITS}}`, '{"a":1,"b":11}'],
    ['one in a body that is no JSON', `{"a":"${SECRET}`, '{"a":"***'],
    ['a word that is as short as words are', '{"type":"content.updated"}', '{"type":"content.updated"}'],
    ['nothing of ours', '{"id":12345678901234567890, "a" : "\\u00e4"}', '{"id":12345678901234567890, "a" : "\\u00e4"}'],
  ])('%s', (_, body, expected) => expect(bodyOf(body)).toBe(expected));

  it('keeps bytes that are no text as they are, but for the secret among them', () => {
    const body = Buffer.concat([Buffer.from([0xff, 0x00]), Buffer.from(SECRET), Buffer.from([0xc3])]);
    expect([...masked(body).body]).toEqual([0xff, 0x00, 0x2a, 0x2a, 0x2a, 0xc3]);
  });

  it('has no secret of a sender who puts it into the body, however short it is', () => {
    expect(bodyOf('{"secret":"pin","a":"spin"}', 'prismic', 'pin')).toBe('{"secret":"***","a":"spin"}');
    expect(bodyOf('{"secret":"pin"}', 'github', 'pin')).toBe('{"secret":"pin"}');
  });

  it('has none in headers or ids, and two ids stay two', () => {
    const [a, b] = [`1-${SECRET}`, `1-${SECRET}`.toUpperCase().replace('CANARY/SECRET', 'canary/secret')].map((id) =>
      masked('{}', undefined, undefined, id),
    );
    expect(a?.headers).toBe('{"x-kind":"***"}');
    expect(a?.delivery_id).toMatch(/^1-\*\*\*#[0-9a-f]{16}$/);
    expect(b?.delivery_id).not.toBe(masked('{}', undefined, undefined, `2-${SECRET}`).delivery_id);
    expect(masked('{}').delivery_id).toBe('msg_1');
  });
});
