import type { Transporter } from 'nodemailer';
import type { ChannelSettings } from '../../../settings/alerts-schema.ts';
import { codeOf, type Channel } from './channel.ts';
import { DEADLINE_MS } from './post.ts';

type EmailSettings = Extract<ChannelSettings, { type: 'email' }>;

const PORTS: Readonly<Record<EmailSettings['tls'], number>> = { starttls: 587, implicit: 465, none: 25 };

/** Mail by SMTP. The library is loaded with the first message, for most processes never send one. */
export function emailChannel(settings: EmailSettings): Channel {
  let opened: Promise<Transporter> | null = null;
  return {
    send: async ({ title, text }, signal) => {
      opened ??= transporterOf(settings);
      try {
        const transporter = await opened;
        const { promise: stopped, reject } = Promise.withResolvers<never>();
        const stop = (): void => reject(new Error('stopped'));
        signal.addEventListener('abort', stop, { once: true });
        const { from, to } = settings;
        const sent = transporter.sendMail({ from, to, subject: title, text: `${text}\n` });
        await Promise.race([sent, stopped]).finally(() => signal.removeEventListener('abort', stop));
        return null;
      } catch (error) {
        return { problem: problemOf(error), waitMs: null };
      }
    },
    close: async () => (await opened?.catch(() => null))?.close(),
  };
}

async function transporterOf({ host, port, tls, user, password }: EmailSettings): Promise<Transporter> {
  const { createTransport } = await import('nodemailer');
  return createTransport({
    host,
    port: port ?? PORTS[tls],
    secure: tls === 'implicit',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'none',
    connectionTimeout: DEADLINE_MS,
    greetingTimeout: DEADLINE_MS,
    socketTimeout: DEADLINE_MS,
    ...(user === undefined ? {} : { auth: { user, pass: password ?? '' } }),
    // A message is text: nothing is fetched for it, from the network or the disk.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/** The server's own word where there is one: `EAUTH (535)`. */
function problemOf(error: unknown): string {
  const answered = error instanceof Error && 'responseCode' in error ? ` (${String(error.responseCode)})` : '';
  return `${codeOf(error)}${answered}`;
}
