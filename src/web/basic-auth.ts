import { createHash, timingSafeEqual } from 'node:crypto';

/** Who may see the pages. */
export interface Access {
  user: string;
  password: string;
}

/** Makes a browser ask for a name and a password. */
export const CHALLENGE = 'Basic realm="content-sync", charset="UTF-8"';

/** True if the header proves the access (RFC 7617). Takes the same time however much of it is right. */
export function isAuthorized(access: Access, authorization: string | undefined): boolean {
  const [, encoded] = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i.exec(authorization ?? '') ?? [];
  const given = Buffer.from(encoded ?? '', 'base64');
  return timingSafeEqual(digest(given), digest(Buffer.from(`${access.user}:${access.password}`)));
}

function digest(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}
