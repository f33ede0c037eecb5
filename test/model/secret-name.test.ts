import { describe, expect, it } from 'vitest';
import { isSecretName } from '../../src/model/visible-text.ts';

describe('a name of a credential', () => {
  it.each(['key', 'api_key', 'apiKey', 'apikey', 'client_secret', 'X-Auth-Token', 'accesstokens', 'session-id-sig'])(
    'is %s',
    (name) => {
      expect(isSecretName(name)).toBe(true);
    },
  );

  it.each(['', 'keyboard', 'token_url', 'client_id', 'signature_version', 'passage'])('is not %s', (name) => {
    expect(isSecretName(name)).toBe(false);
  });
});
