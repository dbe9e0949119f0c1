"""What a training did: alarms, the verdict, and the audit of the labels."""
