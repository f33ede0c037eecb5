import { describe, expect, it } from 'vitest';
import { webhooksSchema } from '../../../src/config/profile/signature-scheme.ts';
import { withoutFields } from '../../../src/server/receiver/mask-delivery.ts';

const HIDDEN = ['author.email', 'contacts.mail', 'phone', 'type'];

function stored(body: string | Buffer, webhooks: Record<string, unknown> = {}): string {
  const delivery = { delivery_id: 'msg_1', is_id_sent: true, received_at: '2026-01-01 00:00:00.000', headers: '{}' };
  const profile = webhooksSchema.parse(webhooks);
  return Buffer.from(withoutFields({ ...delivery, body: Buffer.from(body) }, HIDDEN, profile).body).toString();
}

describe('what is stored of a delivery about records with hidden fields', () => {
  it.each([
    [
      'a record in it',
      '{"data":{"id":1,"author":{"name":"J","email":"j@x"}}}',
      '{"data":{"id":1,"author":{"name":"J","email":"***"}}}',
    ],
    [
      'the record itself',
      '{"phone":5,"contacts":[{"mail":"a"},{"mail":null}]}',
      '{"phone":"***","contacts":[{"mail":"***"},{"mail":null}]}',
    ],
    ['keys in another case', '{"Author":{"eMail":1},"PHONE":2}', '{"Author":{"eMail":"***"},"PHONE":"***"}'],
    ['keys as one with dots', '{"author.email":1,"Contacts.Mail":[2]}', '{"author.email":"***","Contacts.Mail":"***"}'],
    ['one name in two cases', '{"phone":1,"Phone":2,"phones":3}', '{"phone":"***","Phone":"***","phones":3}'],
    ['records in lists', '[[{"phone":"5"}],{"a":[{"phone":{"n":1}}]}]', '[[{"phone":"***"}],{"a":[{"phone":"***"}]}]'],
    [
      'what events are read by',
      '{"type":"content.updated","data":{"type":"x"}}',
      '{"type":"content.updated","data":{"type":"***"}}',
    ],
    ['nothing hidden, to the byte', '{"id": 12345678901234567890 }', '{"id": 12345678901234567890 }'],
    ['long numbers beside it', '{"id":12345678901234567890,"phone":1}', '{"id":12345678901234567890,"phone":"***"}'],
    ['a body that is no JSON', 'phone=5', '***'],
    ['one that is cut', '{"phone":5', '***'],
    ['one that is too deep to look at', `${'['.repeat(50_000)}${']'.repeat(50_000)}`, '***'],
  ])('%s', (_, body, expected) => expect(stored(body)).toBe(expected));

  it('leaves what the events of a list are read by', () => {
    const events = { events: 'events', id: 'json:phone' };
    expect(stored('{"events":[{"phone":5,"data":{"phone":6}}]}', events)).toBe(
      '{"events":[{"phone":5,"data":{"phone":"***"}}]}',
    );
  });

  it('has nothing of bytes that are no text', () => {
    expect(stored(Buffer.from([0x7b, 0xff, 0x00, 0x7d]))).toBe('***');
  });
});
