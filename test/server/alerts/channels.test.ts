import { once } from 'node:events';
import { SMTPServer } from 'smtp-server';
import { expect, it, onTestFinished } from 'vitest';
import { begunMessage, type AlertMessage } from '../../../src/server/alerts/message.ts';
import { sendMessage } from '../../../src/server/alerts/send-message.ts';
import { alertReceiver, SECRET_PATH } from '../../support/alert-receiver.ts';
import { channelWith, conditionOf } from './alert-samples.ts';

const PASSWORD = 'correct horse battery staple';
const { signal } = new AbortController();

function message(what = 'it failed: <!channel> & "so" on\nFrom: evil'): AlertMessage {
  return begunMessage([conditionOf({ what })], { now: Date.now(), publicUrl: null, scrub: (text) => text });
}

/** A mail server that takes mail of whoever knows the password. */
async function mailServer() {
  const mails: { from: string; to: string[]; text: string }[] = [];
  const server = new SMTPServer({
    authMethods: ['PLAIN', 'LOGIN'],
    allowInsecureAuth: true,
    disabledCommands: ['STARTTLS'],
    onAuth: ({ password, username }, _session, done) => {
      if (password === PASSWORD) done(null, { user: username ?? '' });
      else done(new Error(`no such password: ${String(password)}`));
    },
    onData: (stream, { envelope }, done) => {
      let text = '';
      stream.on('data', (chunk: Buffer) => (text += chunk.toString()));
      stream.on('end', () => {
        const from = envelope.mailFrom === false ? '' : envelope.mailFrom.address;
        mails.push({ from, to: envelope.rcptTo.map(({ address }) => address), text });
        done();
      });
    },
  });
  server.on('error', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const address = server.server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no port');
  return { mails, port: address.port };
}

it('sends mail with login, to all receivers, with a text that nobody can add headers to', async () => {
  const { mails, port } = await mailServer();
  const place = { type: 'email', host: '127.0.0.1', port, tls: 'none', user: 'sync' };
  const people = { from: 'content-sync <sync@example.com>', to: ['ops@example.com', 'Ann <ann@example.com>'] };
  const own = { ...place, ...people };
  const channel = channelWith({ ...own, password: PASSWORD });
  expect(await sendMessage(channel, message(), signal)).toBeNull();
  expect(await sendMessage(channel, message('Überfällig – seit gestern'), signal)).toBeNull();
  expect(mails).toMatchObject([
    { from: 'sync@example.com', to: ['ops@example.com', 'ann@example.com'] },
    { to: ['ops@example.com', 'ann@example.com'] },
  ]);
  expect(mails[0]?.text).toContain('Subject: content-sync: failed: blog (content)\r\n');
  expect(mails[0]?.text.split('\r\n\r\n')[0]).not.toMatch(/^From: evil/m);
  const wrong = channelWith({ ...own, password: 'wrong and secret' });
  const refused = await sendMessage(wrong, message(), signal);
  expect(refused?.problem).toBe('EAUTH (535)');
  const encrypted = channelWith({ ...own, tls: 'starttls', password: PASSWORD });
  // The password never goes out unencrypted where encryption was asked for.
  expect(await sendMessage(encrypted, message(), signal)).toMatchObject({ problem: expect.stringContaining('ETLS') });
  expect(mails).toHaveLength(2);
});

it('posts to Slack what cannot mention, link or format', async () => {
  const { posted, url } = await alertReceiver();
  const channel = channelWith({ type: 'slack', url });
  expect(await sendMessage(channel, message(), signal)).toBeNull();
  const { text } = JSON.parse(posted[0]?.body ?? '');
  expect(text).toContain('&lt;!channel&gt; &amp; "so" on From: evil');
  expect(posted[0]?.headers['content-type']).toBe('application/json');
});

it('posts a template with headers, and follows no redirect', async () => {
  const { posted, url } = await alertReceiver((response, n) => {
    if (n === 1) response.end();
    else response.writeHead(307, { location: 'http://127.0.0.1:9/elsewhere' }).end();
  });
  const headers = { Authorization: 'Bearer t0ken', 'Content-Type': 'application/vnd.api+json' };
  const channel = channelWith({ url, headers, body: '{"summary": "{title}", "all": "{text}", "n": {count}}' });
  expect(await sendMessage(channel, message(), signal)).toBeNull();
  expect(await sendMessage(channel, message(), signal)).toMatchObject({ problem: 'answered 307' });
  expect(JSON.parse(posted[0]?.body ?? '')).toMatchObject({ summary: 'content-sync: failed: blog (content)', n: 1 });
  expect(posted[0]?.headers).toMatchObject({
    authorization: 'Bearer t0ken',
    'content-type': 'application/vnd.api+json',
  });
});

it('names a receiver that is not there by the fault alone', async () => {
  const channel = channelWith({ url: `http://127.0.0.1:1/${SECRET_PATH}` });
  expect(await sendMessage(channel, message(), signal)).toEqual({ problem: 'ECONNREFUSED', waitMs: null });
});
