import type { SignatureScheme } from '../../source/signature-scheme.ts';
import { percentDecoded, queryOf } from './text-at.ts';

/** The characters that HubSpot decodes in the address before it signs it, by its own table; it decodes no others. */
const HUBSPOT_DECODES = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi;

const DEFAULT_PORTS: Readonly<Record<string, string>> = { 'https:': '443', 'http:': '80' };

type Form = SignatureScheme['url_form'];

/** Ways in which a sender may have written one address. Any of them may be the signed one; all are of this address. */
const FORMS: Readonly<Record<Form, (url: string) => string[]>> = {
  exact: (url) => [url],
  any_port: (url) => [url, withOtherPort(url)],
  // Some of HubSpot's libraries decode everything.
  decoded: (url) => {
    const partly = url.replace(HUBSPOT_DECODES, (code) => percentDecoded(code) ?? code);
    const wholly = percentDecoded(url) ?? partly;
    return [partly, wholly];
  },
};

/**
 * Makes the function that says what the sender may have taken for our address: the public URL from the settings with
 * the query of the delivery. Host and X-Forwarded-* are never looked at, because anyone can send them.
 */
export function urlForms(form: Form, publicUrl: string | null): (target: string) => string[] {
  const base = withoutQuery(publicUrl ?? '');
  return (target) => FORMS[form](base + queryOf(target));
}

/** Path and query as the sender knows them: with a public URL its path, which a proxy may have changed on the way. */
export function signedPath(publicUrl: string | null): (target: string) => string {
  if (publicUrl === null) return (target) => target;
  const path = withoutQuery(publicUrl).replace(/^[a-z]+:\/\/[^/]*/i, '') || '/';
  return (target) => path + queryOf(target);
}

function withoutQuery(url: string): string {
  return url.replace(/[?#].*$/s, '');
}

/** With the scheme's default port if none is written, without a port if one is. */
function withOtherPort(url: string): string {
  const [, start = '', scheme = '', host = '', port = '', rest = ''] =
    /^(([a-z]+:)\/\/)((?:\[[^\]]*\]|[^:/?#])*)(:\d+)?(.*)$/is.exec(url) ?? [];
  return port === '' ? `${start}${host}:${DEFAULT_PORTS[scheme.toLowerCase()]}${rest}` : `${start}${host}${rest}`;
}
