import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { goneBy } from '../../../src/pagination/read-item.ts';
import { itemFields } from '../../../src/config/profile/delete-fields.ts';

const schema = z.strictObject(itemFields);

describe('gone', () => {
  it('goes by status and body', () => {
    const rule = schema.parse({ gone: { status: [200, 403], body: { path: 'omitted.0.reason', contains: 'exist' } } });
    const isGone = goneBy(schema.parse({ gone: { status: [200], body: { path: 'omitted', contains: 'exist' } } }).gone);
    expect(rule.gone?.status).toEqual([200, 403]);
    const omitted = [{ id: 'a', reason: 'existence' }];
    expect(isGone({ status: 200, json: { omitted } })).toBe(true);
    expect(isGone({ status: 200, json: { omitted: [] } })).toBe(false);
    expect(isGone({ status: 404, json: { omitted } })).toBe(false);
    expect(isGone({ status: 200, json: undefined })).toBe(false);
    expect(goneBy(null)({ status: 200, json: { omitted } })).toBe(false);
  });
});
