"""Every picture: functions that take an ``ax`` and return artists. Nothing else imports matplotlib."""
